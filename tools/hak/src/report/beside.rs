// SPDX-License-Identifier: MIT
//! Rows in which hakmem is in the program itself, in all forms: each beside the row that does the same under the
//! library.

use std::fmt::Write;

use maud::{Markup, html};

use crate::allocators::HAKMEM;
use crate::analysis::{self, Against, Measure};
use crate::report::format;
use crate::report::markdown_form::{head, line, wrapped};
use crate::report::table::{self, Fitted};
use crate::results::{Results, Row};
use crate::stats::{Evidence, Ratios};

const HEADING: &str = "The library in the program";

const EXPLAINED: &str = "\
These programs have hakmem in themselves, through its crate for Rust, so that no other allocator can serve them; they \
have no part in the means. Each is beside the C program that does the same with hakmem preloaded, in the same rounds. \
The ratio is how many times as long it takes.";

const TITLES: [&str; 6] = ["row", "figure", "value", "beside", "ratio to it", ""];

/// The cells of a line each.
fn lines(results: &Results) -> Vec<[String; 6]> {
    results.rows.iter().filter_map(|row| cells(results, row)).collect()
}

fn cells(results: &Results, row: &Row) -> Option<[String; 6]> {
    let beside = row.beside.as_ref()?;
    let value = value(row)?;
    let other = results.rows.iter().find(|other| other.name == *beside && other.figure == row.figure);
    let costs = |row: &Row| row.column(HAKMEM).filter(|column| column.counts()).map(|c| Measure::Beside.costs(row, c));
    let ratios = other.and_then(|other| Ratios::paired(&costs(row)?, &costs(other)?));
    Some([
        row.name.clone(),
        Measure::Beside.figure(row).unwrap_or_default(),
        format::number(value),
        other.and_then(self::value).map_or("-".into(), format::number),
        ratios.as_ref().map_or("-".into(), |ratios| format::ratio(ratios.ratio())),
        ratios.map_or(String::new(), |ratios| format::difference(ratios.difference()).into()),
    ])
}

fn value(row: &Row) -> Option<f64> {
    let standings = analysis::standings(row, Measure::Beside, Against::Best);
    standings.into_iter().find(|standing| standing.allocator == HAKMEM).map(|standing| standing.value)
}

pub fn text(results: &Results, width: Option<usize>) -> String {
    let lines = lines(results);
    if lines.is_empty() {
        return String::new();
    }
    let mut table = Fitted::new(HEADING)
        .text(TITLES[1], Some(1))
        .number(TITLES[2], None)
        .number(TITLES[3], None)
        .number(TITLES[4], None)
        .text(TITLES[5], None);
    lines.into_iter().for_each(|cells| table.row(cells.into()));
    format!("\n{}{}", table.fit(width), table::paragraph(EXPLAINED, width))
}

pub fn markdown(results: &Results) -> String {
    let lines = lines(results);
    if lines.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    let _ = writeln!(out, "## {HEADING}\n\n{}\n", wrapped(EXPLAINED));
    head(&mut out, 2, TITLES.map(String::from));
    lines.into_iter().for_each(|cells| line(&mut out, cells));
    out.push('\n');
    out
}

pub fn page(results: &Results) -> Markup {
    let lines = lines(results);
    html! {
        @if !lines.is_empty() {
            h2 { (HEADING) }
            p.soft { (EXPLAINED) }
            div.scroll { table {
                tr { @for title in TITLES { th { (title) } } }
                @for cells in lines { tr { @for cell in cells { td { (cell) } } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::row_of;
    use crate::means;
    use crate::results::{Figure, Kind};

    const ROUNDS: [f64; 4] = [2.0, 2.02, 1.98, 2.0];

    fn results() -> Results {
        let mut results = Results::new(Kind::Bench, Vec::new(), 4);
        let mut c = row_of(&[("glibc", &ROUNDS), ("hakmem", &ROUNDS)]);
        let mut rust = row_of(&[("hakmem", &ROUNDS.map(|rate| rate / 1.25))]);
        (rust.name, rust.beside) = ("rust".into(), Some(c.name.clone()));
        for row in [&mut c, &mut rust] {
            row.figure = Some(Figure { key: "ops_per_s".into(), more_is_better: true });
        }
        results.rows = vec![c, rust];
        results
    }

    #[test]
    fn it_is_told_beside_the_row_that_does_the_same() {
        let mut results = results();
        let [line] = &lines(&results)[..] else { panic!("one line") };
        assert_eq!(line.each_ref().map(String::as_str), ["rust", "ops_per_s", "1.61", "2.01", "1.25x", ""]);
        assert!(markdown(&results).contains("| rust | ops_per_s | 1.61 | 2.01 | 1.25x |"), "{}", markdown(&results));
        assert!(text(&results, None).contains("1.25x") && page(&results).into_string().contains("1.25x"));
        results.rows.remove(0);
        assert_eq!(lines(&results)[0][3..], ["-", "-", ""], "what was not chosen has no value");
        results.rows[0].columns[0].failure = Some("it broke".into());
        assert!(text(&results, None).is_empty() && markdown(&results).is_empty());
    }

    #[test]
    fn it_has_no_part_in_what_allocators_are_compared_by() {
        let with = results();
        let mut without = with.clone();
        without.rows.pop();
        for measure in Measure::ALL {
            let ratio =
                |results| means::ratio(results, measure, "hakmem", "glibc").map(|ratio| (ratio.ratio(), ratio.rows()));
            assert_eq!(ratio(&with), ratio(&without), "{measure:?}");
            assert!(analysis::standings(&with.rows[1], measure, Against::Best).is_empty());
            let changes = crate::change::between(&with, &with, measure);
            assert!(changes.rows.iter().all(|change| change.row.beside.is_none()));
        }
        assert_eq!(means::ratio(&with, Measure::Time, "hakmem", "glibc").unwrap().rows(), 1);
    }
}
