// SPDX-License-Identifier: MIT
//! When the next look is due.

use std::time::{Duration, Instant};

/// A look at a large heap takes long, and costs the process something as well: the rest behind it is at least so many
/// times as long.
const REST: u32 = 4;

/// Behind a look that was due at some moment, and lasted from one moment to another.
pub fn next_due(due: Instant, began: Instant, ended: Instant, every: Duration) -> Instant {
    // What was missed, because the look took long or the machine slept, is not made up for.
    let kept = due + every;
    let punctual = if kept > ended { kept } else { ended + every };
    punctual.max(ended + (ended - began) * REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_regular_and_leave_the_process_alone_in_between() {
        let start = Instant::now();
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let due = |due, began, ended| next_due(at(due), at(began), at(ended), Duration::from_millis(1000));
        assert_eq!(due(0, 0, 20), at(1000));
        assert_eq!(due(1000, 1007, 1030), at(2000), "a late look does not make all others late");
        assert_eq!(due(0, 0, 500), at(2500), "a look of half a second, and a rest of two");
        assert_eq!(due(0, 60_000, 60_010), at(61_010), "nothing is made up for");
    }
}
