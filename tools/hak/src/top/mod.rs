// SPDX-License-Identifier: MIT
//! `hak top`: processes that run under hakmem, looked at again and again.
//!
//! What is read (`processes`, `reader`) knows nothing of what is shown (`state`, `keys`), and that nothing
//! of how it is drawn (`draw`, `batch`). Tables are the same text on a screen and without one (`texts`).

pub mod batch;
pub mod course;
pub mod draw;
pub mod keys;
pub mod processes;
pub mod reader;
pub mod row;
pub mod schedule;
pub mod screen;
pub mod state;
pub mod terminal;
pub mod texts;
