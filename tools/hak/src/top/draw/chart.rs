// SPDX-License-Identifier: MIT
//! What is resident, and what of it is live, over time.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};

use crate::top::course::Course;
use crate::top::draw::Style;

/// An axis is at least so many seconds long.
const LEAST_SECONDS: f64 = 10.0;

pub fn draw(frame: &mut Frame, course: &Course, area: Rect, style: Style) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (Some(first), Some(last)) = (course.moments.front(), course.moments.back()) else { return };
    let span = (last.seconds - first.seconds).max(LEAST_SECONDS);
    let points = |of: fn(u64, u64) -> u64| -> Vec<(f64, f64)> {
        course
            .moments
            .iter()
            .map(|moment| (moment.seconds - last.seconds, mib(of(moment.resident, moment.live))))
            .collect()
    };
    let (resident, live) = (points(|resident, _| resident), points(|_, live| live));
    let highest = resident.iter().chain(&live).map(|(_, value)| *value).fold(0.0, f64::max);
    let top = round_up(highest);
    let line =
        |points, marker, look| Dataset::default().data(points).marker(marker).graph_type(GraphType::Line).style(look);
    let datasets =
        vec![line(&resident, style.resident_marker(), style.resident()), line(&live, Marker::Braille, style.live())];
    let title = Line::from(vec![
        Span::styled(format!("resident {:.1} MiB", mib(last.resident)), style.resident()),
        Span::raw(", "),
        Span::styled(format!("live {:.1} MiB", mib(last.live)), style.live()),
    ]);
    let label = |value: f64| if top < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    let chart = Chart::new(datasets)
        .block(Block::new().title(title))
        .legend_position(None)
        .x_axis(Axis::default().bounds([-span, 0.0]).labels([format!("-{span:.0} s"), "now".into()]))
        .y_axis(Axis::default().bounds([0.0, top]).labels([label(0.0), label(top / 2.0), label(top)]));
    frame.render_widget(chart, area);
}

/// To one, two, three or five times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 3.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|round| *round >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_in_round_numbers() {
        let values = [0.0, 0.3, 1.0, 1.1, 9.0, 10.0, 290.0, 301.0, 501.0, 1000.0, 1001.0];
        let tops = [1.0, 1.0, 1.0, 2.0, 10.0, 10.0, 300.0, 500.0, 1000.0, 1000.0, 2000.0];
        assert_eq!(values.map(round_up), tops);
    }
}
