// SPDX-License-Identifier: MIT
//! Shows how far a measurement is: a live line on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(steps: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = "{bar:30} {pos}/{len}  {elapsed} (about {eta} left)  {wide_msg}";
            let style = ProgressStyle::with_template(style).expect("a valid template");
            ProgressBar::new(steps).with_style(style)
        });
        Progress { bar }
    }

    /// One run begins.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// One run, or several that need not happen, are over.
    pub fn done(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(steps);
        }
    }

    /// It became known how many steps there are.
    pub fn set_steps(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(steps);
        }
    }

    /// A larger part begins: a line of its own where there is no live one.
    pub fn part(&self, what: &str) {
        if self.bar.is_none() {
            output::say(what);
        }
    }

    /// Something that has to stay on the screen.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::say(line)),
            None => output::say(line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
