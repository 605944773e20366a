// SPDX-License-Identifier: MIT
//! The profile as a few lines for people.

use std::fmt::Write;

use crate::profile::Profile;
use crate::profile::names::Names;
use crate::profile::samples::Value;
use crate::trace::text::bytes;

const STACKS: usize = 5;
const FRAMES: usize = 6;

pub fn mib(bytes: f64) -> String {
    // The sum of nothing is a negative zero; this makes it a positive one.
    format!("{:.2} MiB", bytes / f64::from(1 << 20) + 0.0)
}

pub fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}

pub fn title(value: Value, profile: &Profile) -> String {
    match value {
        Value::Peak => {
            let at = profile.samples.peak_ms.saturating_sub(profile.samples.first_ms.unwrap_or(0));
            format!("Live at the peak, after {}", seconds(at))
        }
        Value::Live if profile.is_whole => "Never freed".into(),
        Value::Live => "Live at the end".into(),
        Value::Allocated => "Allocated".into(),
        Value::Growth => {
            format!("Growth from {} to {}", seconds(profile.growth.0), seconds(profile.growth.1))
        }
    }
}

pub fn text(profile: &Profile) -> String {
    let mut text = format!(
        "{} (process {}), hakmem {}: {} samples in {}, one in {}\n",
        profile.program,
        profile.pid,
        profile.version,
        profile.samples.all.len(),
        seconds(profile.lasted_ms),
        bytes(profile.mean_bytes),
    );
    let mut names = Names::new(&profile.modules, &profile.library);
    for value in [Value::Peak, Value::Live, Value::Allocated] {
        let all = profile.samples.sum(value, profile.growth);
        let _ = writeln!(text, "\n{}: about {}", title(value, profile), mib(all));
        for (stack, bytes) in profile.samples.by_stack(value, profile.growth, None).into_iter().take(STACKS) {
            let line = names.line(&profile.samples.stacks[stack]);
            let frames: Vec<&str> = line.rsplit(';').take(FRAMES).collect();
            let _ = writeln!(text, "{:>14} {:5.1} %  {}", mib(bytes), 100.0 * bytes / all, frames.join(" < "));
        }
    }
    for remark in profile.remarks() {
        let _ = writeln!(text, "\nNote: {remark}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_negative() {
        assert_eq!(mib(std::iter::empty::<f64>().sum()), "0.00 MiB");
        assert_eq!(mib(-1.5 * f64::from(1 << 20)), "-1.50 MiB");
    }
}
