// SPDX-License-Identifier: MIT
//! The forms in which results are shown.

pub mod charts;
pub mod csv;
pub mod format;
pub mod history;
pub mod html;
pub mod html_rows;
pub mod latency;
pub mod markdown;
pub mod metrics;
pub mod table;
pub mod terminal;
