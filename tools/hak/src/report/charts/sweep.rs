// SPDX-License-Identifier: MIT
//! The curves of a sweep. Both axes are logarithmic: what is drawn are the logarithms.

use plotters::prelude::*;

use super::*;

/// One picture.
pub struct Sweep {
    pub title: String,
    pub x_name: String,
    pub y_name: String,
    pub curves: Vec<Curve>,
}

pub struct Curve {
    pub name: String,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

impl Sweep {
    /// All that any curve has.
    pub fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }
}

/// For a page.
pub fn sweep(sweep: &Sweep, named: &Named) -> Result<String> {
    draw(&sweep.title, |area, size| paint(sweep, named, area, size))
}

/// A file of its own, whose text is dark, or light where the reader wants dark pages.
pub fn sweep_file(sweep: &Sweep, named: &Named) -> Result<String> {
    let size = &SIZES[0];
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (size.width as u32, size.height as u32)).into_drawing_area();
    paint(sweep, named, &area, size)?;
    area.present().map_err(bad)?;
    drop(area);
    let title = html! { title { (sweep.title) ": " (sweep.y_name) " by " (sweep.x_name) } }.into_string();
    let style = "<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#d0d7de}}</style>";
    let head = svg.find('>').map_or(0, |end| end + 1);
    svg.insert_str(head, &format!("\n{title}{style}"));
    Ok(svg.replace(INK_IN_SVG, "currentColor"))
}

fn paint(sweep: &Sweep, named: &Named, area: &Area, size: &Size) -> Result<Vec<Hint>> {
    let logarithm = |point: &(f64, f64)| (point.0.log10(), point.1.log10());
    let drawn = |point: &&(f64, f64)| point.0 > 0.0 && point.1 > 0.0;
    let points = || sweep.curves.iter().flat_map(|curve| curve.points.iter().filter(drawn).map(logarithm));
    let xs = around(points().map(|point| point.0));
    let ys = around(points().map(|point| point.1));
    let room = room_for_names(named, sweep.curves.iter().map(|curve| curve.name.as_str()));
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(room)
        .x_label_area_size(X_LABELS)
        .y_label_area_size(size.y_labels_width)
        .build_cartesian_2d(xs.clone(), ys.clone())
        .map_err(bad)?;
    styled(&mut chart.configure_mesh())
        .x_desc(&sweep.x_name)
        .y_desc(&sweep.y_name)
        .x_labels(size.x_labels)
        .x_label_formatter(&|value| format::number(10f64.powf(*value)))
        .y_label_formatter(&|value| format::number(10f64.powf(*value)))
        .draw()
        .map_err(bad)?;
    let mut hints = Vec::new();
    let mut ends = Vec::new();
    let mut sorted: Vec<&Curve> = sweep.curves.iter().collect();
    sorted.sort_by_key(|curve| curve.name == HAKMEM);
    for curve in sorted {
        let colour = named.colours.of(&curve.name);
        let points: Vec<&(f64, f64)> = curve.points.iter().filter(drawn).collect();
        let line: Vec<(f64, f64)> = points.iter().map(|point| logarithm(point)).collect();
        let style = colour.stroke_width(named.width(&curve.name));
        chart.draw_series([PathElement::new(line.clone(), style)]).map_err(bad)?;
        chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, colour.filled()))).map_err(bad)?;
        for (point, at) in points.iter().zip(&line) {
            let (x, y) = (format::number(point.0), format::number(point.1));
            let words = format!("{}: {y} {} at {x} {}", curve.name, sweep.y_name, sweep.x_name);
            hints.push(Hint { at: chart.backend_coord(at), text: words });
        }
        ends.extend(line.last().map(|at| (curve.name.as_str(), chart.backend_coord(at))));
    }
    names_at_the_right(area, size, named, &ends, size.width - room + 14)?;
    Ok(hints)
}

/// Of logarithms, which may be below zero.
fn around(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    if least > most {
        return 0.0..1.0;
    }
    let room = ((most - least) * 0.05).max(0.05);
    least - room..most + room
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::colours::Colours;

    fn made() -> Sweep {
        let curve = |name: &str, points: &[(f64, f64)]| Curve { name: name.into(), points: points.into() };
        Sweep {
            title: "size & batch".into(),
            x_name: "bytes".into(),
            y_name: "ns per operation".into(),
            curves: vec![
                curve("hakmem", &[(16.0, 2.0), (1024.0, 3.0), (1e6, 400.0)]),
                curve("glibc", &[(16.0, 5.0), (1e6, 100.0)]),
                curve("none", &[(0.0, 0.0)]),
            ],
        }
    }

    #[test]
    fn a_curve_has_a_dot_for_each_value_and_says_it() {
        let sweep = made();
        assert_eq!(sweep.xs(), [0.0, 16.0, 1024.0, 1e6]);
        let colours = Colours::new(["hakmem".into(), "glibc".into(), "none".into()]);
        let named = Named { colours: &colours, base: None };
        let page = super::sweep(&sweep, &named).unwrap();
        assert_eq!(page.matches("<svg ").count(), 3);
        assert_eq!(page.matches("hakmem: 3.00 ns per operation at 1024 bytes").count(), 3, "{page}");
        assert!(!page.contains("http") && !page.contains("NaN") && !page.contains("inf"), "{page}");
    }

    #[test]
    fn a_file_stands_by_itself() {
        let colours = Colours::new(["hakmem".into(), "glibc".into()]);
        let named = Named { colours: &colours, base: None };
        let svg = sweep_file(&made(), &named).unwrap();
        assert!(
            svg.starts_with("<svg width=\"1000\"") && svg.contains("xmlns=\"http://www.w3.org/2000/svg\""),
            "{svg}"
        );
        assert!(svg.contains("<title>size &amp; batch: ns per operation by bytes</title><style>"), "{svg}");
        assert!(svg.contains("currentColor") && !svg.contains(INK_IN_SVG));
        let nothing = Sweep { curves: Vec::new(), ..made() };
        assert!(sweep_file(&nothing, &named).is_ok());
    }
}
