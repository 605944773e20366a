// SPDX-License-Identifier: MIT
//! `hak top`

use std::io::{IsTerminal, stdout};

use anyhow::Result;

use crate::cli::Top;
use crate::top::{batch, screen};

pub fn run(arguments: &Top) -> Result<u8> {
    // One that cannot move its cursor is written to as a file is.
    let can_draw = stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if arguments.batch || arguments.count.is_some() || !can_draw {
        return batch::run(arguments.pid, arguments.every, arguments.count);
    }
    screen::run(arguments.pid, arguments.every)
}
