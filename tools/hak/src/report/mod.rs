// SPDX-License-Identifier: MIT
//! The forms in which results are shown.

pub mod bars;
pub mod beside;
pub mod changes;
pub mod charts;
pub mod colours;
pub mod csv;
pub mod format;
pub mod history;
pub mod html;
pub mod html_compare;
pub mod html_map;
pub mod html_rows;
pub mod html_suite;
pub mod labels;
pub mod markdown;
pub mod markdown_compare;
pub mod markdown_form;
pub mod metrics;
pub mod sweeps;
pub mod table;
pub mod terminal;
pub mod terminal_suite;
pub mod timeline;
pub mod told;
