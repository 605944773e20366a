// SPDX-License-Identifier: MIT
//! The picture in a terminal: a line for each SuperSlab, in colours or in letters.

use std::fmt::Write;
use std::io::{IsTerminal, stdout};

use plotters::style::RGBColor;

use crate::inspect::picture::{Cell, Frame, KINDS, Kind, LEVELS, SuperSlab};

/// Whether colours are wanted: on a terminal that is not told otherwise (no-color.org).
pub fn wants_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// As the pages of reports have them, where everybody can tell them apart (report/colours.rs).
pub fn colour(kind: Kind) -> RGBColor {
    match kind {
        Kind::Tiny => RGBColor(0, 114, 178),
        Kind::Mid => RGBColor(52, 172, 119),
        Kind::Large => RGBColor(213, 94, 0),
        Kind::Huge => RGBColor(218, 140, 207),
        Kind::Dirty => RGBColor(178, 169, 91),
        Kind::Clean => RGBColor(132, 137, 145),
        Kind::Lost => RGBColor(150, 50, 79),
    }
}

/// How much of its colour a cell has: what is sparse fades, but is told from what is free.
pub fn strength(cell: &Cell) -> f64 {
    let density = cell.level as f64 / (LEVELS - 1) as f64;
    match cell.kind {
        Kind::Clean => 0.06 + 0.14 * density,
        _ => 0.3 + 0.7 * density,
    }
}

pub fn text(frame: &Frame, coloured: bool) -> String {
    let mut out = String::from("\n");
    for kind in KINDS {
        let (sparse, dense) =
            (Cell { kind, level: 0, resident_kib: 0 }, Cell { kind, level: LEVELS - 1, resident_kib: 0 });
        let _ = writeln!(out, " {}{}  {}", shown(&sparse, coloured), shown(&dense, coloured), kind.meaning());
    }
    out.push('\n');
    let mut rest = &frame.superslabs[..];
    while let Some((first, behind)) = rest.split_first() {
        let _ = write!(out, "{:#014x} ", first.address);
        for cell in &first.cells {
            out += &shown(cell, coloured);
        }
        out.push('\n');
        // Rows that are all alike say no more than one.
        let alike = behind.iter().zip(rest).take_while(|(next, last)| is_like(next, last)).count();
        if alike > 1 {
            let _ = writeln!(out, "{:14} {alike} more like this one", "");
            rest = &behind[alike..];
        } else {
            rest = behind;
        }
    }
    out
}

/// It is the next in memory, and looks the same.
fn is_like(next: &SuperSlab, last: &SuperSlab) -> bool {
    let looks = |cell: &Cell| (cell.kind, cell.level);
    next.address - last.address == last.cells.len() as u64 * (64 << 10)
        && next.cells.iter().map(looks).eq(last.cells.iter().map(looks))
}

fn shown(cell: &Cell, coloured: bool) -> String {
    if coloured {
        let RGBColor(red, green, blue) = colour(cell.kind);
        // Mixed with the dark of most terminals; told apart on a light one, too.
        let mixed = |part: u8| (f64::from(part) * strength(cell) + 24.0 * (1.0 - strength(cell))) as u8;
        return format!("\x1b[48;2;{};{};{}m \x1b[0m", mixed(red), mixed(green), mixed(blue));
    }
    let letter = cell.kind.letter();
    match cell.kind {
        Kind::Clean => ".".into(),
        Kind::Lost => letter.into(),
        _ if cell.level >= LEVELS / 2 => letter.to_ascii_uppercase().into(),
        _ => letter.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::picture::tests::made;

    const STEP: u64 = 2 << 20;

    #[test]
    fn a_line_for_each_superslab() {
        let frame = made(&[STEP, 2 * STEP, 10 * STEP], "");
        let plain = text(&frame, false);
        let row = format!("T{}", ".".repeat(31));
        assert_eq!(plain.lines().filter(|line| line.ends_with(&row)).count(), 3, "{plain}");
        assert!(plain.contains("0x000000200000 T"), "{plain}");
        let coloured = text(&frame, true);
        assert_eq!(coloured.matches("\x1b[48;2;").count(), 3 * 32 + 2 * KINDS.len());
        assert_eq!(coloured.matches("\x1b[48;2;").count(), coloured.matches("\x1b[0m").count());
    }

    #[test]
    fn rows_that_are_alike_are_said_once() {
        let plain = text(&made(&[STEP, 2 * STEP, 3 * STEP, 4 * STEP, 9 * STEP], ""), false);
        assert!(plain.contains(" 3 more like this one"), "{plain}");
        assert_eq!(plain.lines().filter(|line| line.starts_with("0x")).count(), 2, "{plain}");
    }
}
