// SPDX-License-Identifier: MIT
//! What the others are compared with: the allocator that the user has today.

use crate::allocators::{HAKMEM, SHIPPED, SYSTEM};
use crate::results::{Kind, Results, Row};

/// The allocator that the program was shipped with, else the system's; where neither was measured, the
/// first that was, but not hakmem, which is what the question is about. It has to have served nearly
/// all rows, since those that it lacks cannot be compared; if none has, the first that served any.
pub fn of(rows: &[Row]) -> Option<&str> {
    // That no other than hakmem can serve a row is no lack.
    let rows = || rows.iter().filter(|row| row.beside.is_none());
    let mut names: Vec<&str> = Vec::new();
    for name in rows().flat_map(|row| &row.columns).map(|column| column.allocator.as_str()) {
        if name != HAKMEM && !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| match *name {
        SHIPPED => 0,
        SYSTEM => 1,
        _ => 2,
    });
    let served = |name: &str| rows().filter(|row| row.column(name).is_some_and(|column| column.counts())).count();
    let measured = rows().filter(|row| row.columns.iter().any(|column| column.counts())).count();
    let most = names.iter().find(|name| served(name) > 0 && served(name) * 10 >= measured * 9);
    most.or_else(|| names.iter().find(|name| served(name) > 0)).copied()
}

/// The rows of a suite have one baseline, and each program that is compared has its own.
pub fn of_row<'a>(results: &'a Results, row: &'a Row) -> Option<&'a str> {
    match results.kind {
        Kind::Bench => of(&results.rows),
        Kind::Compare => of(std::slice::from_ref(row)),
    }
}

#[cfg(test)]
mod tests {
    use crate::made::row_of;
    use crate::results::Row;

    #[test]
    fn the_baseline_is_what_the_user_has_today() {
        let of = |columns: &[(&str, &[f64])]| super::of(&[row_of(columns)]).map(str::to_owned);
        let one: &[f64] = &[1.0];
        assert_eq!(of(&[("hakmem", one), ("glibc", one), ("as shipped", one)]), Some("as shipped".into()));
        assert_eq!(of(&[("other", one), ("hakmem", one), ("glibc", one)]), Some("glibc".into()));
        assert_eq!(of(&[("hakmem", one), ("other", one), ("more", one)]), Some("other".into()));
        assert_eq!(of(&[("glibc", &[]), ("hakmem", one), ("other", one)]), Some("other".into()));
        assert_eq!(of(&[("hakmem", one)]), None);
    }

    #[test]
    fn a_baseline_that_lacks_rows_is_none_for_the_suite() {
        let one: &[f64] = &[1.0];
        let mut rows = vec![row_of(&[("glibc", one), ("other", one)]); 9];
        rows.push(row_of(&[("glibc", &[]), ("other", one)]));
        assert_eq!(super::of(&rows), Some("glibc"));
        rows.push(Row { beside: Some("made".into()), ..row_of(&[("hakmem", one)]) });
        assert_eq!(super::of(&rows), Some("glibc"));
        rows.push(row_of(&[("glibc", &[]), ("other", one)]));
        assert_eq!(super::of(&rows), Some("other"));
    }
}
