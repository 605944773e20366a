// SPDX-License-Identifier: MIT
//! An error that decides the exit code.

use std::fmt;

/// Something that was asked for failed: a program under one allocator, a row.
pub const SOMETHING_FAILED: u8 = 1;
/// The request makes no sense: no such allocator, an unreadable file. clap uses the same code.
pub const BAD_INPUT: u8 = 2;
/// hakmem costs more than `--fail-if` allows.
pub const LIMIT_EXCEEDED: u8 = 3;
/// `run` only, as env(1) and timeout(1) have them.
pub const CANNOT_RUN: u8 = 126;
pub const NOT_FOUND: u8 = 127;
/// As a shell reports a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

pub fn failure(code: u8, message: impl Into<String>) -> anyhow::Error {
    Failure { code, message: message.into() }.into()
}

pub fn code_of(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<Failure>().map_or(BAD_INPUT, |failure| failure.code)
}
