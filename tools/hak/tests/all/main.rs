// SPDX-License-Identifier: MIT
//! What the tool does, seen from outside: each module starts it as its users do. One program, because each is
//! linked with all that the tests use. `cargo test --test all run::` runs one module's.

mod common;

mod against;
mod bench;
mod browser;
mod compare;
mod dump;
mod experiments;
mod inspect;
mod inspect_map;
mod install;
mod install_hostile;
mod install_services;
mod install_users;
mod outputs;
mod profile;
mod refusals;
mod replay;
mod report;
mod resume;
mod run;
mod sweeps;
mod top;
mod top_screen;
mod trace;
