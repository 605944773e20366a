// SPDX-License-Identifier: MIT
//! The resident memory of a process tree, sampled while it runs.
//!
//! A sample is the sum of all processes' resident sizes, as /proc/PID/statm has them. What processes share,
//! such as the code of libraries, counts for each of them. The proportional size (PSS) would not, but for that
//! the kernel walks the page tables under the lock that the program's own `mmap` and page faults take; the
//! resident size is a counter, whose reading holds up nobody.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A run never has more points than this.
const MOST_POINTS: usize = 200;

/// As long as there is room for them.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// The sampler sleeps at least this many times as long as a sample took, so that samples take at most half a
/// percent of one processor, however many processes and threads there are.
const PAUSES_PER_COST: u32 = 200;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The largest sum that was seen; `None` of a run that ended before the first sample.
    pub peak_tree_kib: Option<u64>,
    /// Milliseconds since the start, and KiB.
    pub over_time: Vec<[u64; 2]>,
}

/// Samples until it is stopped.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Memory>,
}

impl Sampler {
    /// Of the descendants of a process, which has just been started.
    pub fn start(ancestor: u32) -> Sampler {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut course = Course::default();
            let mut pause = SHORTEST_PAUSE;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let before = processor_time();
                course.add(start.elapsed(), resident_kib(ancestor));
                let cost = processor_time().saturating_sub(before);
                pause = course.pause.max(cost.saturating_mul(PAUSES_PER_COST));
            }
            course.end()
        });
        Sampler { stop, thread }
    }

    pub fn stop(self) -> Memory {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Whoever ends while it is looked at counts nothing.
fn resident_kib(ancestor: u32) -> u64 {
    let page_kib = rustix::param::page_size() as u64 / 1024;
    let mut buffer = Vec::new();
    let mut resident = |pid: u32| {
        let text = read(&format!("/proc/{pid}/statm"), &mut buffer);
        numbers(text).nth(1).unwrap_or(0)
    };
    descendants(ancestor).into_iter().map(&mut resident).sum::<u64>() * page_kib
}

/// Without the process itself. Parents come before their children.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    add_children(ancestor, &mut found, &mut buffer);
    let mut looked_at = 0;
    while let Some(&pid) = found.get(looked_at) {
        add_children(pid, &mut found, &mut buffer);
        looked_at += 1;
    }
    found
}

/// Of all of its threads.
fn add_children(pid: u32, found: &mut Vec<u32>, buffer: &mut Vec<u8>) {
    let tasks = format!("/proc/{pid}/task");
    // Two links are the directory's own. Most processes have one thread, whose number is the process's.
    let threads = std::fs::metadata(&tasks).map_or(0, |metadata| metadata.nlink().saturating_sub(2));
    let mut add = |thread: &str| {
        for child in numbers(read(&format!("{tasks}/{thread}/children"), buffer)) {
            // A number that is used again within this look could otherwise lead into a circle.
            if let Ok(child) = u32::try_from(child)
                && !found.contains(&child)
            {
                found.push(child);
            }
        }
    };
    match threads {
        0 => {}
        1 => add(&pid.to_string()),
        _ => {
            let names = std::fs::read_dir(&tasks).into_iter().flatten().flatten().map(|entry| entry.file_name());
            names.for_each(|name| add(&name.to_string_lossy()));
        }
    }
}

/// Empty if there is no such file any more. As few system calls as can be, since this is done all the time.
fn read<'a>(file: &str, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    const ENOUGH_FOR_MOST: usize = 4096;
    buffer.resize(ENOUGH_FOR_MOST, 0);
    let mut used = 0;
    if let Ok(mut file) = File::open(file) {
        while let Ok(length @ 1..) = file.read(&mut buffer[used..]) {
            used += length;
            if used < buffer.len() / 2 {
                break; // the kernel gives as much as there is room for
            }
            buffer.resize(2 * buffer.len(), 0);
        }
    }
    &buffer[..used]
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = text.split(|byte| byte.is_ascii_whitespace());
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

/// The samples of a run of any length, in at most `MOST_POINTS` points.
struct Course {
    points: Vec<[u64; 2]>,
    pause: Duration,
}

impl Default for Course {
    fn default() -> Course {
        Course { points: Vec::with_capacity(MOST_POINTS), pause: SHORTEST_PAUSE }
    }
}

impl Course {
    /// When there is no more room, the larger one of each two neighbours stays, so that no peak is lost, and
    /// from then on there are half as many.
    fn add(&mut self, time: Duration, kib: u64) {
        if self.points.len() == MOST_POINTS {
            let larger = |pair: &[[u64; 2]]| if pair[1][1] > pair[0][1] { pair[1] } else { pair[0] };
            self.points = self.points.chunks_exact(2).map(larger).collect();
            self.pause = self.pause.saturating_mul(2);
        }
        self.points.push([u64::try_from(time.as_millis()).unwrap_or(u64::MAX), kib]);
    }

    /// Nothing is resident before the program has begun, and after it has ended.
    fn end(mut self) -> Memory {
        self.points.retain(|point| point[1] > 0);
        Memory { peak_tree_kib: self.points.iter().map(|point| point[1]).max(), over_time: self.points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(samples: impl Iterator<Item = (u64, u64)>) -> Course {
        let mut course = Course::default();
        samples.for_each(|(time, kib)| course.add(Duration::from_millis(time), kib));
        course
    }

    #[test]
    fn a_long_run_has_few_points_and_keeps_its_peak() {
        let peak = |time| if time == 777 { 5000 } else { 10 };
        let course = course((0..10_000).map(|time| (time, peak(time))));
        assert!(course.pause >= SHORTEST_PAUSE * 64, "{:?}", course.pause);
        let memory = course.end();
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&memory.over_time.len()));
        assert!(memory.over_time.contains(&[777, 5000]));
        assert!(memory.over_time.is_sorted());
        assert_eq!(memory.peak_tree_kib, Some(5000));
    }

    #[test]
    fn a_run_without_samples_has_no_peak() {
        assert_eq!(course(std::iter::empty()).end(), Memory::default());
        assert_eq!(course([(2, 0)].into_iter()).end(), Memory::default());
    }

    #[test]
    fn long_lists_are_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("numbers");
        let all: Vec<u64> = (0..20_000).collect();
        std::fs::write(&file, all.iter().map(|number| format!("{number} ")).collect::<String>()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(numbers(read(file.to_str().unwrap(), &mut buffer)).collect::<Vec<_>>(), all);
        assert!(read("/no/such/file", &mut buffer).is_empty());
    }

    #[test]
    fn children_of_children_are_descendants_and_the_process_itself_is_not() {
        let script = "sh -c 'echo $$; sleep 60; true' & wait";
        let mut outer = std::process::Command::new("sh");
        let mut outer = outer.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(outer.stdout.take().unwrap()), &mut line).unwrap();
        let inner: u32 = line.trim().parse().unwrap();
        let own = descendants(std::process::id());
        assert!(own.contains(&outer.id()) && own.contains(&inner) && !own.contains(&std::process::id()), "{own:?}");
        let below = descendants(outer.id());
        assert_eq!(below[0], inner);
        assert!(resident_kib(outer.id()) > 0);
        for pid in below.iter().rev().chain([&outer.id()]) {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        outer.wait().unwrap();
    }
}
