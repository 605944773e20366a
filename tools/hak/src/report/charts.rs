// SPDX-License-Identifier: MIT
//! Charts with two axes as SVG text, to stand inside a page.
//!
//! Letters shrink with a picture, so each chart is drawn for three widths, of which the page shows the
//! one that fits. plotters writes colours into the picture: text and lines are drawn in `INK`, which is
//! then replaced by the page's own colour, so that one picture serves light and dark pages.

use anyhow::{Result, anyhow};
use maud::{PreEscaped, html};
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::allocators::HAKMEM;
use crate::report::colours::Colours;
use crate::report::format;
use crate::report::labels::{self, Place};
use crate::report::timeline;

const INK: RGBColor = RGBColor(1, 2, 3);
const INK_IN_SVG: &str = "#010203";
const FONT: &str = "sans-serif";
const MARGIN: i32 = 8;
const X_LABELS: i32 = 40;
/// As many as plotters aims at.
const Y_LABELS: usize = 10;

/// What the page calls it, its width and height, and how many marks the axis below has room for.
struct Size {
    class: &'static str,
    width: i32,
    height: i32,
    x_labels: usize,
    y_labels_width: i32,
}

const SIZES: [Size; 3] = [
    Size { class: "large", width: 1000, height: 380, x_labels: 10, y_labels_width: 64 },
    Size { class: "middle", width: 680, height: 340, x_labels: 7, y_labels_width: 60 },
    Size { class: "small", width: 350, height: 330, x_labels: 4, y_labels_width: 54 },
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What is said where the pointer rests.
struct Hint {
    at: (i32, i32),
    text: String,
}

fn draw(title: &str, paint: impl Fn(&Area, &Size) -> Result<Vec<Hint>>) -> Result<String> {
    let pictures = SIZES.iter().map(|size| {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (size.width as u32, size.height as u32)).into_drawing_area();
        let hints = paint(&area, size)?;
        area.present().map_err(bad)?;
        drop(area);
        let hints = html! {
            @for hint in &hints { circle.hint cx=(hint.at.0) cy=(hint.at.1) r="8" { title { (hint.text) } } }
        };
        // A page needs neither the namespace nor a fixed size.
        let fixed = format!("width=\"{}\" height=\"{}\"", size.width, size.height);
        let label = html! { span class=(size.class) role="img" aria-label=(title) {} }.into_string();
        let label = label.trim_start_matches("<span ").trim_end_matches("></span>");
        Ok(svg
            .replacen(&fixed, label, 1)
            .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
            .replace(INK_IN_SVG, "currentColor")
            .replace("</svg>", &format!("{}</svg>", PreEscaped(hints.into_string()).0)))
    });
    pictures.collect()
}

fn bad(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("cannot draw: {error:?}")
}

/// Beside an axis of which `range` is shown, with as many digits as its marks need to differ.
fn mark(value: f64, range: f64, marks: usize) -> String {
    if value.abs() >= 1e4 {
        return format::number(value);
    }
    let step = range / marks as f64;
    let digits = if step > 0.0 { (-step.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 };
    format!("{value:.digits$}")
}

type Mesh<'a, 'b, 'c> = MeshStyle<'a, 'b, RangedCoordf64, RangedCoordf64, SVGBackend<'c>>;

/// Axes and grid as all charts have them.
fn styled<'m, 'a, 'b, 'c>(mesh: &'m mut Mesh<'a, 'b, 'c>) -> &'m mut Mesh<'a, 'b, 'c> {
    let label = (FONT, 14).into_font().color(&INK.mix(0.85));
    mesh.label_style(label.clone())
        .axis_desc_style(label)
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.14))
        .light_line_style(INK.mix(0.0))
}

fn text(area: &Area, words: &str, at: (i32, i32), anchor: HPos) -> Result<()> {
    let style = (FONT, 15).into_font().color(&INK).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(words.to_owned(), at, style)).map_err(bad)
}

/// What a line or a dot stands for.
pub struct Named<'a> {
    pub colours: &'a Colours,
    pub base: Option<&'a str>,
}

impl Named<'_> {
    fn label(&self, name: &str) -> String {
        if self.base == Some(name) { format!("{name} (base)") } else { name.into() }
    }

    /// hakmem is drawn over the others.
    fn width(&self, name: &str) -> u32 {
        if name == HAKMEM { 4 } else { 2 }
    }
}

/// Names at the right edge, each led to from the end of its line. Dotted, since nothing was measured there.
fn names_at_the_right(area: &Area, size: &Size, named: &Named, ends: &[(&str, (i32, i32))], left: i32) -> Result<()> {
    let wanted: Vec<i32> = ends.iter().map(|(_, end)| end.1).collect();
    let ys = labels::stacked(&wanted, (MARGIN + labels::LINE / 2, size.height - X_LABELS - MARGIN));
    for ((name, end), y) in ends.iter().zip(ys) {
        let colour = named.colours.of(name);
        let leader = vec![(end.0 + 6, end.1), (left - 4, y)];
        area.draw(&DashedPathElement::new(leader, 1, 4, colour.mix(0.9))).map_err(bad)?;
        area.draw(&Circle::new(*end, 4, colour.filled())).map_err(bad)?;
        text(area, &named.label(name), (left, y), HPos::Left)?;
    }
    Ok(())
}

fn room_for_names<'a>(named: &Named, names: impl Iterator<Item = &'a str>) -> i32 {
    names.map(|name| labels::text_width(&named.label(name))).max().unwrap_or(0) + 18
}

/// One line per allocator: what it had resident while the program ran.
pub fn memory(title: &str, named: &Named, courses: &[timeline::Course]) -> Result<String> {
    let end = courses.iter().map(timeline::Course::end).fold(1e-3, f64::max);
    let top = courses.iter().map(timeline::Course::top).fold(1e-3, f64::max);
    let mut sorted: Vec<&timeline::Course> = courses.iter().collect();
    sorted.sort_by_key(|course| (course.allocator == HAKMEM, named.base == Some(&course.allocator)));
    draw(title, |area, size| {
        let room = room_for_names(named, courses.iter().map(|course| course.allocator.as_str()));
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(room)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(size.y_labels_width)
            .build_cartesian_2d(0.0..end, 0.0..top * 1.04)
            .map_err(bad)?;
        styled(&mut chart.configure_mesh())
            .x_desc("seconds")
            .y_desc("MiB")
            .x_labels(size.x_labels)
            .x_label_formatter(&|value| mark(*value, end, size.x_labels))
            .y_label_formatter(&|value| mark(*value, top, Y_LABELS))
            .draw()
            .map_err(bad)?;
        let mut hints = Vec::new();
        let mut ends = Vec::new();
        for course in &sorted {
            let name = course.allocator.as_str();
            let style = named.colours.of(name).stroke_width(named.width(name));
            chart.draw_series([PathElement::new(course.points.clone(), style)]).map_err(bad)?;
            // So many that the pointer meets one everywhere.
            let step = course.points.len().div_ceil(size.x_labels * 6).max(1);
            for &point in course.points.iter().step_by(step) {
                let words = format!("{name}: {} MiB after {} s", format::number(point.1), format::number(point.0));
                hints.push(Hint { at: chart.backend_coord(&point), text: words });
            }
            if let Some(last) = course.points.last() {
                ends.push((name, chart.backend_coord(last)));
            }
        }
        names_at_the_right(area, size, named, &ends, size.width - room + 14)?;
        Ok(hints)
    })
}

pub struct Cloud {
    pub name: String,
    pub samples: Vec<(f64, f64)>,
    pub centre: (f64, f64),
}

/// Both axes: less is better, and neither starts at zero.
pub fn scatter(title: &str, x_name: &str, y_name: &str, named: &Named, clouds: &[Cloud]) -> Result<String> {
    let points = || clouds.iter().flat_map(|cloud| cloud.samples.iter().copied().chain([cloud.centre]));
    let xs = range(points().map(|point| point.0), 0.08);
    let ys = range(points().map(|point| point.1), 0.08);
    // Names go below their dots as well.
    let ys = (ys.start - (ys.end - ys.start) * 0.1).max(0.0)..ys.end;
    draw(title, |area, size| {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(size.y_labels_width)
            .build_cartesian_2d(xs.clone(), ys.clone())
            .map_err(bad)?;
        styled(&mut chart.configure_mesh())
            .x_desc(x_name)
            .y_desc(y_name)
            .x_labels(size.x_labels)
            .x_label_formatter(&|value| mark(*value, xs.end - xs.start, size.x_labels))
            .y_label_formatter(&|value| mark(*value, ys.end - ys.start, Y_LABELS))
            .draw()
            .map_err(bad)?;
        for cloud in clouds {
            let colour = named.colours.of(&cloud.name);
            let dots = cloud.samples.iter().map(|&point| Circle::new(point, 3, colour.mix(0.45).filled()));
            chart.draw_series(dots).map_err(bad)?;
        }
        let dot = |at: (i32, i32)| Place { x: at.0 - 7, y: at.1, width: 14 };
        let mut taken: Vec<Place> = clouds.iter().map(|cloud| dot(chart.backend_coord(&cloud.centre))).collect();
        let (left, right) = (MARGIN + size.y_labels_width, size.width - MARGIN);
        let mut hints = Vec::new();
        // Who is asked about has the first choice of a place for its name.
        let mut sorted: Vec<&Cloud> = clouds.iter().collect();
        sorted.sort_by_key(|cloud| (cloud.name != HAKMEM, named.base != Some(&cloud.name)));
        for cloud in sorted {
            let colour = named.colours.of(&cloud.name);
            let radius = if cloud.name == HAKMEM { 9 } else { 7 };
            chart.draw_series([Circle::new(cloud.centre, radius, colour.filled())]).map_err(bad)?;
            let at = chart.backend_coord(&cloud.centre);
            let label = named.label(&cloud.name);
            let place = labels::beside(at, &label, &taken, (left, right), (MARGIN, size.height - X_LABELS - MARGIN));
            if (place.y - at.1).abs() >= labels::LINE {
                let near = at.0.clamp(place.x - 2, place.x + place.width + 2);
                area.draw(&PathElement::new(vec![at, (near, place.y)], colour.mix(0.6))).map_err(bad)?;
            }
            text(area, &label, (place.x, place.y), HPos::Left)?;
            taken.push(place);
            let (x, y) = (format::number(cloud.centre.0), format::number(cloud.centre.1));
            hints.push(Hint { at, text: format!("{}: {x_name} {x}, {y_name} {y}", cloud.name) });
        }
        Ok(hints)
    })
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

pub struct Course {
    pub name: String,
    /// One for each file; a gap where there was no value.
    pub values: Vec<Option<f64>>,
}

/// Lines over several result files, which are numbered from 1. Less is better.
pub fn courses(title: &str, files: &[String], y_name: &str, named: &Named, courses: &[Course]) -> Result<String> {
    let ys = range(courses.iter().flat_map(|course| course.values.iter().flatten().copied()), 0.1);
    let last = files.len().saturating_sub(1) as f64;
    draw(title, |area, size| {
        let room = room_for_names(named, courses.iter().map(|course| course.name.as_str()));
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(room)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(size.y_labels_width)
            .build_cartesian_2d(-0.15..last + 0.15, ys.clone())
            .map_err(bad)?;
        styled(&mut chart.configure_mesh())
            .y_desc(y_name)
            .x_labels(0)
            .y_label_formatter(&|value| mark(*value, ys.end - ys.start, Y_LABELS))
            .draw()
            .map_err(bad)?;
        for index in (0..files.len()).step_by(files.len().div_ceil(size.x_labels * 2).max(1)) {
            let at = chart.backend_coord(&(index as f64, ys.start)).0;
            text(area, &(index + 1).to_string(), (at, size.height - X_LABELS + 4), HPos::Center)?;
        }
        let mut hints = Vec::new();
        let mut ends = Vec::new();
        for course in courses {
            let colour = named.colours.of(&course.name);
            let numbered = course.values.iter().enumerate();
            let points: Vec<(f64, f64)> =
                numbered.filter_map(|(index, value)| Some((index as f64, (*value)?))).collect();
            let style = colour.stroke_width(named.width(&course.name));
            chart.draw_series([PathElement::new(points.clone(), style)]).map_err(bad)?;
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 4, colour.filled()))).map_err(bad)?;
            for point in &points {
                let words = format!("{}: {} in {}", course.name, format::number(point.1), files[point.0 as usize]);
                hints.push(Hint { at: chart.backend_coord(point), text: words });
            }
            ends.extend(points.last().map(|point| (course.name.as_str(), chart.backend_coord(point))));
        }
        names_at_the_right(area, size, named, &ends, size.width - room + 14)?;
        Ok(hints)
    })
}

mod sweep;

pub use sweep::{Curve, Sweep, sweep, sweep_file};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_take_the_pages_colour_and_need_nothing_from_elsewhere() {
        let colours = Colours::new(["hakmem".into(), "<s>".into()]);
        let named = Named { colours: &colours, base: Some("<s>") };
        let course = |name: &str| timeline::Course { allocator: name.into(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = memory("t\"<", &named, &[course("hakmem"), course("<s>")]).unwrap();
        assert_eq!(svg.matches("<svg ").count(), 3);
        assert!(svg.contains("currentColor") && svg.contains("viewBox") && svg.contains("class=\"small\""), "{svg}");
        assert!(svg.contains("&lt;s&gt; (base)") && svg.contains("hakmem: 2.00 MiB after 1.00 s"), "{svg}");
        assert!(!svg.contains("http") && !svg.contains("<s>") && !svg.contains(INK_IN_SVG), "{svg}");
    }

    #[test]
    fn marks_have_the_digits_that_they_need() {
        assert_eq!([0.05, 0.1].map(|value| mark(value, 0.455, 10)), ["0.05", "0.10"]);
        assert_eq!([0.0, 20.0].map(|value| mark(value, 60.0, 10)), ["0", "20"]);
        assert_eq!(mark(20_000.0, 60_000.0, 10), "20.0 k");
    }

    #[test]
    fn nothing_and_zeros_can_be_drawn() {
        let colours = Colours::new([]);
        let named = Named { colours: &colours, base: None };
        assert!(memory("", &named, &[]).is_ok());
        let nothing = timeline::Course { allocator: "a".into(), points: vec![(0.0, 0.0), (0.0, 0.0)] };
        assert!(memory("", &named, &[nothing]).is_ok());
        assert!(scatter("", "x", "y", &named, &[]).is_ok());
        let cloud = Cloud { name: "a".into(), samples: vec![(0.0, 0.0)], centre: (0.0, 0.0) };
        assert!(scatter("", "x", "y", &named, &[cloud]).is_ok());
        assert!(courses("", &[], "y", &named, &[]).is_ok());
    }
}
