// SPDX-License-Identifier: MIT
//! Charts as SVG text, to stand inside a page.
//!
//! plotters writes colours into the picture. Text and lines are drawn in `INK`, which is then
//! replaced by the page's own colour, so that one picture serves light and dark pages.

use anyhow::{Result, anyhow};
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::allocators::{HAKMEM, SYSTEM};
use crate::report::format;

const INK: RGBColor = RGBColor(1, 2, 3);
const INK_IN_SVG: &str = "#010203";
/// As wide as the page shows them, so that letters have their size: two in a line, or one.
const HALF: u32 = 490;
const WIDE: u32 = 1000;
const FONT: &str = "sans-serif";

/// hakmem and glibc have their own. Readable on white and on black.
const PALETTE: [RGBColor; 10] = [
    RGBColor(76, 120, 188),
    RGBColor(74, 157, 78),
    RGBColor(163, 105, 190),
    RGBColor(196, 152, 30),
    RGBColor(62, 158, 160),
    RGBColor(166, 118, 92),
    RGBColor(214, 110, 150),
    RGBColor(110, 150, 60),
    RGBColor(120, 130, 210),
    RGBColor(90, 140, 140),
];

/// The same colour for the same allocator on the whole page.
#[derive(Clone)]
pub struct Colours(Vec<String>);

impl Colours {
    pub fn new(names: impl IntoIterator<Item = String>) -> Colours {
        Colours(names.into_iter().filter(|name| name != HAKMEM && name != SYSTEM).collect())
    }

    fn of(&self, name: &str) -> RGBColor {
        match name {
            HAKMEM => RGBColor(228, 87, 46),
            SYSTEM => RGBColor(132, 137, 145),
            _ => {
                let index = self.0.iter().position(|other| other == name).unwrap_or(0);
                PALETTE[index % PALETTE.len()]
            }
        }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw((width, height): (u32, u32), title: &str, paint: impl FnOnce(&Area) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
    paint(&area)?;
    area.present().map_err(bad)?;
    drop(area);
    // A page needs neither the namespace nor a fixed size.
    let size = format!("width=\"{width}\" height=\"{height}\"");
    let label = format!("role=\"img\" aria-label=\"{}\"", title.replace(['"', '<', '&'], " "));
    Ok(svg
        .replacen(&size, &label, 1)
        .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace(INK_IN_SVG, "currentColor"))
}

fn bad(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("cannot draw: {error:?}")
}

type Mesh<'a, 'b, 'c> = MeshStyle<'a, 'b, RangedCoordf64, RangedCoordf64, SVGBackend<'c>>;

/// Axes and grid as all charts have them.
fn styled<'m, 'a, 'b, 'c>(mesh: &'m mut Mesh<'a, 'b, 'c>) -> &'m mut Mesh<'a, 'b, 'c> {
    let label = (FONT, 13).into_font().color(&INK.mix(0.85));
    mesh.label_style(label.clone())
        .axis_desc_style(label)
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.14))
        .light_line_style(INK.mix(0.0))
}

fn text(area: &Area, words: &str, at: (i32, i32), size: i32, anchor: HPos, strength: f64) -> Result<()> {
    let style = (FONT, size).into_font().color(&INK.mix(strength)).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(words.to_owned(), at, style)).map_err(bad)
}

pub struct Bar {
    pub name: String,
    /// `None`: it failed, or the note says why.
    pub value: Option<f64>,
    /// Each is a dot; the bar's whisker goes from the smallest to the largest.
    pub samples: Vec<f64>,
    /// At the end of the line.
    pub note: String,
}

/// Horizontal bars from zero. Less is better.
pub fn bars(title: &str, colours: &Colours, bars: &[Bar]) -> Result<String> {
    const LINE: i32 = 30;
    const LEFT: i32 = 112;
    const RIGHT: i32 = 132;
    let height = LINE * bars.len() as i32 + 10;
    let largest = bars.iter().flat_map(|bar| bar.samples.iter().copied().chain(bar.value)).fold(0.0, f64::max);
    let room = f64::from(HALF as i32 - LEFT - RIGHT);
    let x = |value: f64| LEFT + if largest > 0.0 { (value / largest * room).round() as i32 } else { 0 };
    draw((HALF, height as u32), title, |area| {
        for (index, bar) in bars.iter().enumerate() {
            let middle = LINE * index as i32 + LINE / 2 + 5;
            let colour = colours.of(&bar.name);
            text(area, &bar.name, (LEFT - 10, middle), 14, HPos::Right, 1.0)?;
            let Some(value) = bar.value else {
                let reason = if bar.note.is_empty() { "failed" } else { &bar.note };
                text(area, reason, (LEFT + 4, middle), 13, HPos::Left, 0.6)?;
                continue;
            };
            let rectangle = [(LEFT, middle - 10), (x(value).max(LEFT + 1), middle + 10)];
            let strength = if bar.name == HAKMEM { 0.95 } else { 0.6 };
            area.draw(&Rectangle::new(rectangle, colour.mix(strength).filled())).map_err(bad)?;
            if bar.samples.len() > 1 {
                let least = bar.samples.iter().copied().fold(f64::MAX, f64::min);
                let most = bar.samples.iter().copied().fold(f64::MIN, f64::max);
                let whisker = vec![(x(least), middle), (x(most), middle)];
                area.draw(&PathElement::new(whisker, INK.mix(0.7))).map_err(bad)?;
                for &sample in &bar.samples {
                    area.draw(&Circle::new((x(sample), middle), 2, INK.mix(0.55).filled())).map_err(bad)?;
                }
            }
            text(area, &bar.note, (HALF as i32 - RIGHT + 14, middle), 13, HPos::Left, 0.85)?;
        }
        Ok(())
    })
}

pub struct Cloud {
    pub name: String,
    pub samples: Vec<(f64, f64)>,
    pub centre: (f64, f64),
}

/// Both axes: less is better, and neither starts at zero.
pub fn scatter(title: &str, x_name: &str, y_name: &str, colours: &Colours, clouds: &[Cloud]) -> Result<String> {
    const HEIGHT: u32 = 420;
    let points = || clouds.iter().flat_map(|cloud| cloud.samples.iter().copied().chain([cloud.centre]));
    let xs = range(points().map(|point| point.0), 0.14);
    let ys = range(points().map(|point| point.1), 0.08);
    draw((WIDE, HEIGHT), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(xs, ys)
            .map_err(bad)?;
        styled(&mut chart.configure_mesh())
            .x_desc(x_name)
            .y_desc(y_name)
            .x_label_formatter(&|value| format::number(*value))
            .y_label_formatter(&|value| format::number(*value))
            .draw()
            .map_err(bad)?;
        for cloud in clouds {
            let colour = colours.of(&cloud.name);
            let dots = cloud.samples.iter().map(|&point| Circle::new(point, 3, colour.mix(0.45).filled()));
            chart.draw_series(dots).map_err(bad)?;
        }
        let mut taken: Vec<(i32, i32)> = Vec::new();
        for cloud in clouds {
            let colour = colours.of(&cloud.name);
            let size = if cloud.name == HAKMEM { 9 } else { 7 };
            chart.draw_series([Circle::new(cloud.centre, size, colour.filled())]).map_err(bad)?;
            let at = chart.backend_coord(&cloud.centre);
            let place = free_place((at.0 + 13, at.1), &taken);
            taken.push(place);
            text(area, &cloud.name, place, 13, HPos::Left, 1.0)?;
        }
        Ok(())
    })
}

/// Labels move away from those that are there already, by whole lines, up and down in turn.
fn free_place(wanted: (i32, i32), taken: &[(i32, i32)]) -> (i32, i32) {
    let free =
        |place: (i32, i32)| taken.iter().all(|other| (other.0 - place.0).abs() > 100 || (other.1 - place.1).abs() > 13);
    (0..20)
        .map(|step: i32| (wanted.0, wanted.1 + (step + 1) / 2 * 14 * if step % 2 == 0 { 1 } else { -1 }))
        .find(|&place| free(place))
        .unwrap_or(wanted)
}

fn range(values: impl Iterator<Item = f64>, room_above: f64) -> std::ops::Range<f64> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    if least > most {
        return 0.0..1.0;
    }
    // Points that are nearly equal should look so.
    let width = (most - least).max(most.abs() * 0.05).max(1e-9);
    (least - width * 0.08).max(0.0)..most + width * room_above
}

pub struct Lead {
    pub row: String,
    /// Above 1: hakmem is better by that factor.
    pub advantage: f64,
    pub note: String,
    pub noise: bool,
}

/// Bars from a middle line, on a logarithmic scale: to the right hakmem is ahead.
pub fn leads(title: &str, leads: &[Lead]) -> Result<String> {
    const LINE: i32 = 20;
    const LEFT: i32 = 380;
    const RIGHT: i32 = 160;
    const TOP: i32 = 26;
    let height = LINE * leads.len() as i32 + TOP + 8;
    let most = leads.iter().map(|lead| lead.advantage.log2().abs()).fold(0.1, f64::max).min(4.0);
    let half = f64::from(WIDE as i32 - LEFT - RIGHT) / 2.0;
    let centre = LEFT + half as i32;
    let x = |advantage: f64| centre + (advantage.log2().clamp(-most, most) / most * half).round() as i32;
    draw((WIDE, height as u32), title, |area| {
        text(area, "worse", (centre - 8, 10), 12, HPos::Right, 0.7)?;
        text(area, "hakmem better", (centre + 8, 10), 12, HPos::Left, 0.7)?;
        for (index, lead) in leads.iter().enumerate() {
            let middle = TOP + LINE * index as i32 + LINE / 2;
            text(area, &shortened(&lead.row), (LEFT - 10, middle), 12, HPos::Right, 0.9)?;
            let colour = match (lead.noise, lead.advantage >= 1.0) {
                (true, _) => RGBColor(140, 144, 150).mix(0.6),
                (false, true) => RGBColor(74, 157, 78).mix(0.9),
                (false, false) => RGBColor(205, 66, 70).mix(0.9),
            };
            let end = x(lead.advantage);
            let (from, to) = (centre.min(end), centre.max(end).max(centre.min(end) + 1));
            area.draw(&Rectangle::new([(from, middle - 6), (to, middle + 6)], colour.filled())).map_err(bad)?;
            text(area, &lead.note, (WIDE as i32 - RIGHT + 10, middle), 12, HPos::Left, 0.8)?;
        }
        let line = vec![(centre, TOP - 6), (centre, height - 4)];
        area.draw(&PathElement::new(line, INK.mix(0.6))).map_err(bad)
    })
}

fn shortened(name: &str) -> String {
    const LONGEST: usize = 56;
    if name.chars().count() <= LONGEST {
        return name.into();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

pub struct Course {
    pub name: String,
    /// One for each date; a gap where there was no value.
    pub values: Vec<Option<f64>>,
}

/// Lines over several result files. Less is better.
pub fn courses(title: &str, dates: &[String], y_name: &str, colours: &Colours, courses: &[Course]) -> Result<String> {
    const HEIGHT: u32 = 340;
    let ys = range(courses.iter().flat_map(|course| course.values.iter().flatten().copied()), 0.1);
    let last = dates.len().saturating_sub(1) as f64;
    draw((HALF, HEIGHT), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.15..last + 0.6, ys)
            .map_err(bad)?;
        styled(&mut chart.configure_mesh())
            .y_desc(y_name)
            .x_labels(0)
            .y_label_formatter(&|value| format::number(*value))
            .draw()
            .map_err(bad)?;
        // As many as there is room for; of more than three, the day alone.
        for (index, date) in dates.iter().enumerate().step_by(dates.len().div_ceil(5).max(1)) {
            let at = chart.backend_coord(&(index as f64, 0.0)).0;
            let day = date.get(..10).filter(|_| dates.len() > 3).unwrap_or(date);
            text(area, day, (at.max(90), HEIGHT as i32 - 26), 12, HPos::Center, 0.8)?;
        }
        let mut taken: Vec<(i32, i32)> = Vec::new();
        for course in courses {
            let colour = colours.of(&course.name);
            let points: Vec<(f64, f64)> =
                course.values.iter().enumerate().filter_map(|(index, value)| Some((index as f64, (*value)?))).collect();
            let width = if course.name == HAKMEM { 3 } else { 2 };
            chart.draw_series([PathElement::new(points.clone(), colour.stroke_width(width))]).map_err(bad)?;
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 4, colour.filled()))).map_err(bad)?;
            if let Some(point) = points.last() {
                let at = chart.backend_coord(point);
                let place = free_place((at.0 + 9, at.1), &taken);
                taken.push(place);
                text(area, &course.name, place, 12, HPos::Left, 1.0)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_take_the_pages_colour_and_need_nothing_from_elsewhere() {
        let bar = |name: &str, value| Bar {
            name: name.into(),
            value,
            samples: vec![1.0, 2.0],
            note: if value.is_some() { "1 <s>".into() } else { String::new() },
        };
        let colours = Colours::new(["a".into()]);
        let svg = bars("t\"<", &colours, &[bar("hakmem", Some(1.5)), bar("a", None)]).unwrap();
        assert!(svg.contains("currentColor") && svg.contains("failed") && svg.contains("viewBox"), "{svg}");
        assert!(!svg.contains("http") && !svg.contains("<s>") && !svg.contains(INK_IN_SVG), "{svg}");
    }

    #[test]
    fn nothing_and_zeros_can_be_drawn() {
        let colours = Colours::new([]);
        assert!(bars("", &colours, &[]).is_ok());
        assert!(scatter("", "x", "y", &colours, &[]).is_ok());
        let cloud = Cloud { name: "a".into(), samples: vec![(0.0, 0.0)], centre: (0.0, 0.0) };
        assert!(scatter("", "x", "y", &colours, &[cloud]).is_ok());
        assert!(leads("", &[]).is_ok());
        assert!(courses("", &[], "y", &colours, &[]).is_ok());
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let first = free_place((10, 10), &[]);
        let second = free_place((12, 11), &[first]);
        assert!((first.1 - second.1).abs() > 13);
    }
}
