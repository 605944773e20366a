// SPDX-License-Identifier: MIT
//! The end of `hak compare`: what it shows, writes and exits with.

use crate::allocators::{SHIPPED, SYSTEM};
use crate::commands::exports::Exports;
use crate::failure::{INTERRUPTED, LIMIT_EXCEEDED, SOMETHING_FAILED};
use crate::interrupt;
use crate::limits::{Judgement, Limit};
use crate::output::say;
use crate::report;
use crate::results::{Column, Results, Row, State, SystemCalls};

/// The exit code.
pub fn show(results: &Results, exports: &Exports, limits: &[Limit]) -> u8 {
    let mut code = 0;
    if results.rows.iter().any(was_begun) {
        if let Err(error) = exports.show(&report::terminal::comparison(results, exports.best())) {
            say(format_args!("hak: {error:#}"));
            code = SOMETHING_FAILED;
        }
        results.rows.iter().for_each(remark);
    }
    // What an earlier comparison has written is worth more than that this one was interrupted.
    let has_samples = |row: &Row| row.columns.iter().any(|column| !column.samples.is_empty());
    if results.state != State::Interrupted || results.rows.iter().any(has_samples) {
        code = code.max(exports.write(&[results]));
    }
    if results.state == State::Interrupted {
        say(interrupt::SHOWN);
        return INTERRUPTED;
    }
    let was_compared = |row: &Row| row.not_run.is_none() && row.alone.is_none();
    let something_failed = !results.failures().is_empty() || !results.rows.iter().all(was_compared);
    if something_failed {
        code = SOMETHING_FAILED;
    }
    // That one is exceeded says more than that something failed.
    match judge(results, limits) {
        0 => code,
        judged => judged,
    }
}

fn was_begun(row: &Row) -> bool {
    row.columns.iter().any(|column| !column.samples.is_empty() || column.failure.is_some())
}

fn remark(row: &Row) {
    let unknown = |column: &Column| match &column.system_calls {
        Some(SystemCalls::Unknown(reason)) => Some(reason.clone()),
        _ => None,
    };
    if let Some(reason) = row.columns.iter().find_map(unknown) {
        say(format_args!("hak: system calls were not counted: {reason}"));
    }
    let has_failed = |column: &Column| column.failure.is_some();
    if row.column(SHIPPED).is_none() && row.column(SYSTEM).is_some_and(has_failed) {
        say("hak: there is no result under the system's malloc, so there is no base to compare with");
    }
}

fn judge(results: &Results, limits: &[Limit]) -> u8 {
    let mut code = 0;
    for (row, limit) in results.rows.iter().flat_map(|row| limits.iter().map(move |limit| (row, limit))) {
        match limit.judge(row) {
            Judgement::Kept => {}
            Judgement::Exceeded(how) => {
                say(format_args!("hak: {}: beyond {limit}: {how}", row.name));
                code = LIMIT_EXCEEDED;
            }
            Judgement::Unknown(reason) => {
                say(format_args!("hak: {}: {limit} cannot be told: {reason}", row.name));
                code = code.max(SOMETHING_FAILED);
            }
        }
    }
    code
}
