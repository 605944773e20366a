// SPDX-License-Identifier: MIT
//! Plain text tables that fit the terminal, and rows that tables of any form share.

use std::io::{IsTerminal, stdout};

use comfy_table::{CellAlignment, Table};

use crate::analysis::Against;
use crate::means::{self, Mean};
use crate::report::format;
use crate::results::Results;
use crate::upstream;

/// The first column is text; numbers, to the right, follow.
pub fn new(headers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(headers);
    table
}

pub fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// How wide a line may be: what COLUMNS says, else the width of the terminal, if it is one.
pub fn width() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    let of_terminal = || terminal_size::terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0));
    given.or_else(|| stdout().is_terminal().then(of_terminal).flatten())
}

/// Text between tables.
pub fn paragraph(text: &str, width: Option<usize>) -> String {
    format::wrapped(text, width.map_or(100, |width| width.min(100))) + "\n"
}

/// A table that gives columns up, and then turns, rather than cut a name.
pub struct Fitted {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

struct Column {
    title: String,
    text: bool,
    /// The larger, the sooner it is given up; `None`: never.
    spare: Option<u8>,
}

impl Fitted {
    /// The first column has the names.
    pub fn new(title: &str) -> Fitted {
        Fitted { columns: vec![Column { title: title.into(), text: true, spare: None }], rows: Vec::new() }
    }

    pub fn number(mut self, title: &str, spare: Option<u8>) -> Fitted {
        self.columns.push(Column { title: title.into(), text: false, spare });
        self
    }

    pub fn text(mut self, title: &str, spare: Option<u8>) -> Fitted {
        self.columns.push(Column { title: title.into(), text: true, spare });
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// A line for the titles and one for each row, which is too long where nothing more can be given up.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let text = self.upright(&shown);
            let spare = shown.iter().copied().filter(|index| self.columns[*index].spare.is_some());
            match spare.max_by_key(|index| self.columns[*index].spare) {
                Some(least) if text.lines().any(|line| line.chars().count() > width) => {
                    shown.retain(|index| *index != least)
                }
                _ => return text.lines().map(String::from).collect(),
            }
        }
    }

    /// Ends with a line end.
    pub fn fit(&self, width: Option<usize>) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let text = self.upright(&shown);
            if width.is_none_or(|width| text.lines().all(|line| line.chars().count() <= width)) {
                return text;
            }
            let spare = shown.iter().copied().filter(|index| self.columns[*index].spare.is_some());
            match spare.max_by_key(|index| self.columns[*index].spare) {
                Some(least) => shown.retain(|index| *index != least),
                None => return self.turned(),
            }
        }
    }

    fn upright(&self, shown: &[usize]) -> String {
        let titles: Vec<&str> = shown.iter().map(|index| self.columns[*index].title.as_str()).collect();
        let mut table = new(&titles);
        for row in &self.rows {
            table.add_row(shown.iter().map(|index| &row[*index]));
        }
        for place in (0..shown.len()).filter(|place| !self.columns[shown[*place]].text) {
            align_right(&mut table, place..place + 1);
        }
        let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n") + "\n"
    }

    /// Each row as lines of its own: the name, and what each column says of it.
    fn turned(&self) -> String {
        let mut out = format!("{}\n", self.columns[0].title);
        for row in &self.rows {
            out += &format!(" {}\n", row[0]);
            for (column, cell) in self.columns.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
                out += &format!("   {} {cell}\n", column.title);
            }
        }
        out
    }
}

/// A row for every allocator, the fastest first: name, version, the newest upstream, relative time and in how many rows,
/// relative memory and in how many rows, failures.
pub fn mean_rows(results: &Results, against: Against) -> Vec<[String; 8]> {
    let mut means = means::of_all(results, against);
    means.sort_by(|a, b| a.time.unwrap_or(f64::MAX).total_cmp(&b.time.unwrap_or(f64::MAX)));
    let row = |mean: Mean| {
        let allocator = results.allocators.iter().find(|allocator| allocator.name == mean.allocator);
        let version = allocator.map(|allocator| allocator.version.clone()).unwrap_or_default();
        let newest = upstream::newest(&mean.allocator, &version);
        [
            mean.allocator,
            version,
            newest,
            format::mean(mean.time),
            mean.time_rows.to_string(),
            format::mean(mean.memory),
            mean.memory_rows.to_string(),
            mean.failures.to_string(),
        ]
    };
    means.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Fitted {
        let mut table = Fitted::new("allocator").number("time", None).number("spread", Some(2)).text("from", Some(1));
        table.row(["tbbmalloc-deb", "0.88x ± 0.03", "12.0 %", "the system"].map(String::from).to_vec());
        table.row(["x", "1.00x", "1.0 %", ""].map(String::from).to_vec());
        table
    }

    #[test]
    fn columns_are_given_up_before_names_are_cut() {
        for (width, expected) in [(None, 4), (Some(60), 4), (Some(46), 3), (Some(34), 2)] {
            let text = table().fit(width);
            let parts = ["tbbmalloc-deb", "0.88x ± 0.03", "the system", "12.0 %"];
            assert_eq!(parts.iter().filter(|part| text.contains(**part)).count(), expected, "{width:?}\n{text}");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(width.is_none_or(|width| widest <= width), "{width:?}\n{text}");
        }
    }

    #[test]
    fn lines_are_never_turned() {
        for (width, expected) in [(60, 4), (46, 3), (34, 2), (20, 2), (0, 2)] {
            let lines = table().lines(width);
            assert_eq!(lines.len(), 3);
            let parts = ["tbbmalloc-deb", "0.88x ± 0.03", "the system", "12.0 %"];
            assert_eq!(parts.iter().filter(|part| lines[1].contains(**part)).count(), expected, "{width}: {lines:?}");
        }
    }

    #[test]
    fn where_nothing_else_fits_it_turns() {
        let text = table().fit(Some(20));
        assert!(text.contains(" tbbmalloc-deb\n   time 0.88x ± 0.03\n   spread 12.0 %\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
    }
}
