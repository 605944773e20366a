// SPDX-License-Identifier: MIT
//! Memory over time: of each allocator's runs the one whose length is in the middle.

use crate::results::{Column, Row, Sample};

/// More points than these are not to be told apart in a chart, and make the page large.
const MOST_POINTS: usize = 240;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    pub allocator: String,
    /// Seconds since the start, and MiB.
    pub points: Vec<(f64, f64)>,
}

impl Course {
    pub fn end(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.0)
    }

    pub fn top(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// What there was at a time: what was seen last before it, and nothing after the end.
    pub fn at(&self, seconds: f64) -> Option<f64> {
        let after = self.points.iter().position(|point| point.0 > seconds);
        let before = after.map_or(self.points.len(), |index| index).checked_sub(1)?;
        (seconds <= self.end()).then(|| self.points[before].1)
    }
}

/// In the order of the columns; without those that were never sampled twice.
pub fn of(row: &Row) -> Vec<Course> {
    let columns = row.columns.iter().filter(|column| column.counts());
    columns.filter_map(course).collect()
}

fn course(column: &Column) -> Option<Course> {
    let seen = |sample: &&Sample| sample.memory_over_time.iter().filter(|[_, kib]| *kib > 0).count();
    let mut runs: Vec<&Sample> = column.samples.iter().filter(|sample| seen(sample) > 1).collect();
    runs.sort_by(|a, b| a.usage.wall_seconds.total_cmp(&b.usage.wall_seconds));
    let run = runs.get(runs.len().checked_sub(1)? / 2)?;
    let point = |[milliseconds, kib]: &[u64; 2]| (*milliseconds as f64 / 1e3, *kib as f64 / 1024.0);
    // While a process becomes another program it has nothing for a moment, which is no memory of the program's.
    let seen = run.memory_over_time.iter().filter(|[_, kib]| *kib > 0);
    let points = thinned(&seen.map(point).collect::<Vec<_>>());
    Some(Course { allocator: column.allocator.clone(), points })
}

/// Of neighbours the largest, so that no peak gets lost, with the first and the last as they are.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    let inner = &points[1..points.len() - 1];
    let size = inner.len().div_ceil(MOST_POINTS - 2);
    let largest = inner.chunks(size).filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)));
    std::iter::once(first).chain(largest).chain([last]).collect()
}

/// One line of text: `width` letters are `end` seconds, and a full block is `top` MiB.
pub fn sparkline(course: &Course, end: f64, top: f64, width: usize) -> String {
    let seconds = |cell: usize| cell as f64 * end / width as f64;
    let largest = |cell: usize| {
        let inside = course.points.iter().filter(|point| point.0 >= seconds(cell) && point.0 < seconds(cell + 1));
        inside.map(|point| point.1).reduce(f64::max).or_else(|| course.at(seconds(cell)))
    };
    let block = |value: f64| BLOCKS[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1];
    let line: String = (0..width).map(|cell| largest(cell).map_or(' ', block)).collect();
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::row_of;

    fn course_of(points: &[(f64, f64)]) -> Course {
        Course { allocator: "a".into(), points: points.to_vec() }
    }

    #[test]
    fn the_run_in_the_middle_is_shown() {
        let mut row = row_of(&[("a", &[3.0, 1.0, 2.0]), ("b", &[1.0]), ("c", &[])]);
        for (sample, kib) in row.columns[0].samples.iter_mut().zip([3072, 1024, 2048]) {
            sample.memory_over_time = vec![[0, 512], [700, 0], [1500, kib]];
        }
        row.columns[1].samples[0].memory_over_time = vec![[0, 512]];
        assert_eq!(of(&row), [course_of(&[(0.0, 0.5), (1.5, 2.0)])]);
    }

    #[test]
    fn no_peak_is_lost_among_many_points() {
        let points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), if i == 777 { 9.0 } else { 1.0 })).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS && thin.contains(&(777.0, 9.0)), "{}", thin.len());
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[9999]));
        assert_eq!(thinned(&points[..5]), points[..5]);
    }

    #[test]
    fn a_course_is_drawn_with_blocks() {
        let course = course_of(&[(0.0, 1.0), (1.0, 8.0), (2.0, 4.0), (3.0, 0.0)]);
        assert_eq!(sparkline(&course, 4.0, 8.0, 4), "▁█▄▁");
        // Between samples it is as it was, and after its end there is nothing.
        assert_eq!(sparkline(&course, 8.0, 16.0, 16), "▁▁▄▄▂▂▁");
        assert_eq!((course.at(1.5), course.at(3.5), course.top()), (Some(8.0), None, 8.0));
    }
}
