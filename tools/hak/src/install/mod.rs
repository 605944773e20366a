// SPDX-License-Identifier: MIT
//! `hak install` and `hak uninstall`: hakmem put in front of a program, a user's programs, a service or a system.
//!
//! A plan says what is to be changed, a record of it is written first, and then the changes are made, each in one
//! step. So whatever ends the tool in the middle, the record knows what there may be to take back.

pub mod arguments;
pub mod base_programs;
pub mod changes;
pub mod copy;
pub mod files;
pub mod forms;
pub mod records;
pub mod root;
pub mod servable;
pub mod trust;
pub mod unit;
