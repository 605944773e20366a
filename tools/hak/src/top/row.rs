// SPDX-License-Identifier: MIT
//! A process in the list, and the columns that it can be sorted by.

use std::cmp::Ordering;

use crate::inspect::snapshot::Figures;
use crate::report::table::Fitted;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub pid: u32,
    pub program: String,
    pub figures: Figures,
    /// With a heap of their own.
    pub threads: u64,
    /// Bytes a second that went to the system since the last look.
    pub returned: Option<f64>,
}

impl Row {
    pub fn matches(&self, filter: &str) -> bool {
        self.program.to_lowercase().contains(&filter.to_lowercase()) || self.pid.to_string().contains(filter)
    }

    fn share(&self) -> f64 {
        self.figures.resident_live as f64 * 100.0 / self.figures.resident.max(1) as f64
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Pid,
    Resident,
    Live,
    Share,
    Kept,
    Mapped,
    Returned,
    Threads,
    Program,
}

pub const COLUMNS: [Column; 9] = [
    Column::Pid,
    Column::Resident,
    Column::Live,
    Column::Share,
    Column::Kept,
    Column::Mapped,
    Column::Returned,
    Column::Threads,
    Column::Program,
];

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

impl Column {
    pub fn title(self) -> &'static str {
        match self {
            Column::Pid => "PID",
            Column::Resident => "resident",
            Column::Live => "live",
            Column::Share => "live %",
            Column::Kept => "kept",
            Column::Mapped => "mapped",
            Column::Returned => "returned/s",
            Column::Threads => "threads",
            Column::Program => "program",
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Column::Pid => "the process",
            Column::Resident => "MiB of its heap that are in memory, with hakmem's tables",
            Column::Live => "MiB of that in blocks that the program holds",
            Column::Share => "live by resident",
            Column::Kept => "MiB that are resident and not live: cached, free or tables",
            Column::Mapped => "MiB that the heap has mapped",
            Column::Returned => "MiB that went to the system, a second",
            Column::Threads => "threads that have a heap",
            Column::Program => "the program",
        }
    }

    /// The larger, the sooner a narrow screen goes without it.
    fn spare(self) -> Option<u8> {
        match self {
            Column::Pid | Column::Resident | Column::Program => None,
            Column::Live => Some(1),
            Column::Share => Some(3),
            Column::Kept => Some(2),
            Column::Mapped => Some(5),
            Column::Returned => Some(4),
            Column::Threads => Some(6),
        }
    }

    pub fn largest_first(self) -> bool {
        !matches!(self, Column::Pid | Column::Program)
    }

    fn cell(self, row: &Row) -> String {
        let figures = &row.figures;
        match self {
            Column::Pid => row.pid.to_string(),
            Column::Resident => mib(figures.resident),
            Column::Live => mib(figures.resident_live),
            Column::Share => format!("{:.1}", row.share()),
            Column::Kept => mib(figures.resident.saturating_sub(figures.resident_live)),
            Column::Mapped => mib(figures.mapped),
            Column::Returned => row.returned.map_or("-".into(), |bytes| format!("{:.2}", bytes / f64::from(1 << 20))),
            Column::Threads => row.threads.to_string(),
            Column::Program => row.program.clone(),
        }
    }

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let kept = |row: &Row| row.figures.resident.saturating_sub(row.figures.resident_live);
        match self {
            Column::Pid => a.pid.cmp(&b.pid),
            Column::Resident => a.figures.resident.cmp(&b.figures.resident),
            Column::Live => a.figures.resident_live.cmp(&b.figures.resident_live),
            Column::Share => a.share().total_cmp(&b.share()),
            Column::Kept => kept(a).cmp(&kept(b)),
            Column::Mapped => a.figures.mapped.cmp(&b.figures.mapped),
            Column::Returned => a.returned.unwrap_or(-1.0).total_cmp(&b.returned.unwrap_or(-1.0)),
            Column::Threads => a.threads.cmp(&b.threads),
            Column::Program => a.program.cmp(&b.program),
        }
    }

    /// Those that are alike in order of their numbers.
    pub fn sort(self, rows: &mut [Row], largest_first: bool) {
        rows.sort_by(|a, b| {
            let order = self.compare(a, b);
            if largest_first { order.reverse() } else { order }.then(a.pid.cmp(&b.pid))
        });
    }

    /// The next one, or the one before, round and round.
    pub fn beside(self, step: isize) -> Column {
        let place = COLUMNS.iter().position(|column| *column == self).unwrap_or(0);
        COLUMNS[(place as isize + step).rem_euclid(COLUMNS.len() as isize) as usize]
    }
}

/// The column that it is sorted by is marked if it is named.
pub fn table<'a>(rows: impl Iterator<Item = &'a Row>, sorted: Option<(Column, bool)>) -> Fitted {
    let title = |column: Column| match sorted {
        Some((by, largest_first)) if by == column => {
            format!("{}{}", column.title(), if largest_first { "▼" } else { "▲" })
        }
        _ => column.title().to_owned(),
    };
    let mut table = Fitted::new(&title(Column::Pid));
    for column in &COLUMNS[1..] {
        table = match column {
            Column::Program => table.text(&title(*column), column.spare()),
            _ => table.number(&title(*column), column.spare()),
        };
    }
    for row in rows {
        table.row(COLUMNS.iter().map(|column| column.cell(row)).collect());
    }
    table
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A process with so many MiB resident and live.
    pub fn row(pid: u32, program: &str, resident: u64, live: u64) -> Row {
        let figures =
            Figures { resident: resident << 20, resident_live: live << 20, mapped: 512 << 20, ..Figures::default() };
        Row { pid, program: program.into(), figures, threads: u64::from(pid % 7), returned: Some(f64::from(pid)) }
    }

    fn order(column: Column, largest_first: bool) -> Vec<u32> {
        let mut rows = [row(10, "b", 100, 10), row(20, "a", 50, 40), row(30, "c", 200, 50)];
        column.sort(&mut rows, largest_first);
        rows.iter().map(|row| row.pid).collect()
    }

    #[test]
    fn every_column_sorts() {
        assert_eq!(order(Column::Resident, true), [30, 10, 20]);
        assert_eq!(order(Column::Resident, false), [20, 10, 30]);
        assert_eq!(order(Column::Pid, false), [10, 20, 30]);
        assert_eq!(order(Column::Live, true), [30, 20, 10]);
        assert_eq!(order(Column::Share, true), [20, 30, 10]);
        assert_eq!(order(Column::Kept, true), [30, 10, 20]);
        assert_eq!(order(Column::Mapped, true), [10, 20, 30], "alike: in order of their numbers");
        assert_eq!(order(Column::Returned, true), [30, 20, 10]);
        assert_eq!(order(Column::Threads, true), [20, 10, 30]);
        assert_eq!(order(Column::Program, false), [20, 10, 30]);
    }

    #[test]
    fn columns_go_round() {
        let mut column = Column::Resident;
        for _ in COLUMNS {
            column = column.beside(1);
        }
        assert_eq!((column, Column::Pid.beside(-1)), (Column::Resident, Column::Program));
    }

    #[test]
    fn filters_know_names_and_numbers() {
        let row = row(1234, "Some Program", 1, 1);
        assert!(row.matches("") && row.matches("program") && row.matches("PRO") && row.matches("23"));
        assert!(!row.matches("other") && !row.matches("5"));
    }
}
