// SPDX-License-Identifier: MIT
//! A ring in this process, in the state that others have left it in.

use super::*;
use crate::inspect::fields::Kind;

const EVENTS: u64 = 8;
const STACKS: u64 = 4;
const EVENT_BYTES: u64 = 64;
const STACK_BYTES: u64 = 64;
const AT_STACKS: u64 = EVENTS * EVENT_BYTES;
const AT_WATCHED: u64 = AT_STACKS + STACKS * STACK_BYTES;
const AT_FILTER: u64 = AT_WATCHED + 64;

/// Words that both the ring and the test look at by their addresses.
struct Words(Vec<u64>);

const RECORD: usize = 0;
const MEAN: usize = 1;
const DRAINED: usize = 2;
const STACKS_DRAINED: usize = 3;
const STACK_COUNT: usize = 4;
const BEAT_WORD: usize = 5;
const READER: usize = 6;
const EVENT_COUNT: usize = 7;
const ENDING: usize = 9;
const TABLE: usize = 16;

impl Words {
    fn new() -> Words {
        let mut words = Words(vec![0; TABLE + usize::try_from(AT_FILTER + 64).unwrap() / 8]);
        words.0[RECORD] = words.at(TABLE);
        words
    }

    fn at(&self, index: usize) -> u64 {
        self.0.as_ptr().wrapping_add(index) as u64
    }

    fn get(&self, target: &Target, index: usize) -> u64 {
        number(&target.read(self.at(index), 8).unwrap())
    }

    fn set(&self, target: &Target, index: usize, value: u64) {
        target.write(self.at(index), &value.to_le_bytes()).unwrap();
    }

    /// The event of this number, of a free; complete.
    fn free(&self, target: &Target, number: u64) {
        let place = TABLE + usize::try_from(number % EVENTS * EVENT_BYTES / 8).unwrap();
        self.set(target, place, number + 1);
    }

    fn ring(&self) -> Ring {
        let field = |at: u64, bytes: usize| Field { kind: Kind::Variable, bytes, count: 1, stride: bytes, at };
        let word = |index: usize| field(self.at(index), 8);
        let half = |index: usize| field(self.at(index), 4);
        let fields = Fields {
            event_bytes: EVENT_BYTES,
            stack_bytes: STACK_BYTES,
            events: EVENTS,
            stacks: STACKS,
            watched: 8,
            filter: 64,
            at_events: 0,
            at_stacks: AT_STACKS,
            at_watched: AT_WATCHED,
            at_filter: AT_FILTER,
            allocated: 1,
            record: word(RECORD),
            mean_bytes: word(MEAN),
            drained: word(DRAINED),
            stacks_drained: word(STACKS_DRAINED),
            stack_count: word(STACK_COUNT),
            beat: half(BEAT_WORD),
            reader: half(READER),
            event_count: word(EVENT_COUNT),
            dropped_count: word(8),
            is_ending: half(ENDING),
            number: field(0, 8),
            kind: field(8, 4),
            thread: field(12, 4),
            block: field(16, 8),
            bytes: field(24, 8),
            mean: field(32, 8),
            stack: field(40, 8),
            time: field(48, 8),
            stack_number: field(0, 8),
            stack_length: field(8, 8),
            pc: field(16, 8),
            registers: field(24, 8),
            contents: field(32, 8),
        };
        Ring {
            fields,
            id_word: half(10),
            next: 0,
            next_stack: 0,
            stacks_before: 0,
            stuck: None,
            dropped_before: 0,
            lost: 0,
            lost_stacks: 0,
            beat: 0,
        }
    }
}

fn here() -> Target {
    Target::open_for_writing(std::process::id()).unwrap()
}

fn own() -> u64 {
    u64::from(std::process::id())
}

#[test]
fn a_reader_that_is_gone_gives_way() {
    let (target, words) = (here(), Words::new());
    // Nobody, with and without a wish; one that gives no sign; a wish that has ended.
    for (reader, mean) in [(0, 0), (0, 5), (4_194_305, 5), (4_194_305, 0)] {
        words.set(&target, READER, reader);
        words.set(&target, MEAN, mean);
        words.ring().take_over(&target).unwrap();
        assert_eq!(words.get(&target, READER), own(), "{reader} {mean}");
    }
}

/// Whether somebody is refused while `other` goes on and on, in one of many rounds: this thread or that one may not
/// run for a while.
fn is_refused(target: &Target, words: &Words, before: u64, other: impl Fn()) -> bool {
    (0..100).any(|_| {
        words.set(target, READER, before);
        let refused = std::thread::scope(|scope| {
            let reader = scope.spawn(|| words.ring().take_over(&here()));
            while !reader.is_finished() {
                other();
            }
            reader.join().unwrap()
        });
        refused.is_err_and(|error| error.to_string().contains("is profiled already, by process 4194305"))
    })
}

#[test]
fn a_reader_that_gives_signs_stays() {
    let (target, words) = (here(), Words::new());
    words.set(&target, MEAN, 5);
    assert!(is_refused(&target, &words, 4_194_305, || {
        words.set(&target, BEAT_WORD, (words.get(&target, BEAT_WORD) + 1) & 0xFFFF);
    }));
    assert_eq!(words.get(&target, READER), 4_194_305);
}

#[test]
fn of_two_who_begin_at_once_one_gives_way() {
    let (target, words) = (here(), Words::new());
    assert!(is_refused(&target, &words, 0, || {
        if words.get(&target, READER) == own() {
            words.set(&target, READER, 4_194_305);
        }
    }));
}

#[test]
fn who_was_replaced_notices_and_ends_nothing() {
    let (target, words) = (here(), Words::new());
    let mut ring = words.ring();
    ring.take_over(&target).unwrap();
    words.set(&target, MEAN, 5);
    ring.check_reader(&target).unwrap();
    words.set(&target, READER, 4_194_305);
    assert!(ring.check_reader(&target).unwrap_err().to_string().contains("process 4194305 has begun"));
    ring.stop(&target).unwrap();
    assert_eq!((words.get(&target, MEAN), words.get(&target, READER)), (5, 4_194_305));
    words.set(&target, READER, own());
    ring.stop(&target).unwrap();
    assert_eq!((words.get(&target, MEAN), words.get(&target, READER)), (0, 0));
}

/// Otherwise it can be the one that was seen last, ten seconds ago.
#[test]
fn the_first_beat_is_a_new_one() {
    let (target, words) = (here(), Words::new());
    for beat in [0, 1, u64::from(u32::MAX)] {
        words.set(&target, BEAT_WORD, beat);
        let mut ring = words.ring();
        ring.take_over(&target).unwrap();
        ring.begin(&target, 7).unwrap();
        assert_eq!(words.get(&target, BEAT_WORD), (beat + 1) & u64::from(u32::MAX));
        words.set(&target, BEAT_WORD, beat);
        words.ring().claim(&target).unwrap();
        assert_eq!(words.get(&target, BEAT_WORD), (beat + 1) & u64::from(u32::MAX));
    }
}

#[test]
fn what_was_watched_is_forgotten() {
    let (target, words) = (here(), Words::new());
    let (watched, filter) =
        (TABLE + usize::try_from(AT_WATCHED).unwrap() / 8, TABLE + usize::try_from(AT_FILTER).unwrap() / 8);
    for index in [watched, watched + 3, watched + 4, watched + 7, filter + 1] {
        words.set(&target, index, 0x1000);
    }
    words.set(&target, EVENT_COUNT, 3);
    words.ring().begin(&target, 7).unwrap();
    assert!((watched..watched + 16).all(|index| words.get(&target, index) == 0));
    assert_eq!((words.get(&target, DRAINED), words.get(&target, MEAN)), (3, 7));
}

/// Memory that cannot be written to is left alone where it is zero.
#[test]
fn what_is_zero_is_not_cleared() {
    let target = here();
    let (page, flags) = (4096 * 16, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which is written to within its bounds, and unmapped at the end.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 2 * page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        at.cast::<u64>().add(5).write_volatile(7);
        assert_eq!(libc::mprotect(at.byte_add(page), page, libc::PROT_READ), 0);
        assert!(target.write(at as u64 + page as u64, &[0; 8]).is_err());
        clear(&target, at as u64, 2 * page as u64).unwrap();
        assert_eq!(at.cast::<u64>().add(5).read_volatile(), 0);
        libc::munmap(at, 2 * page);
    }
}

/// Frees have filled the events; of allocations after them there are stacks, and nothing else.
#[test]
fn stacks_of_dropped_events_give_their_places_back() {
    let (target, words) = (here(), Words::new());
    let mut ring = words.ring();
    words.set(&target, EVENT_COUNT, EVENTS);
    words.set(&target, STACK_COUNT, STACKS);
    (0..EVENTS - 1).for_each(|number| words.free(&target, number));
    // The last one is not complete, and may be of an allocation with a stack.
    assert_eq!(ring.drain(&target).unwrap().len() as u64, EVENTS - 1);
    assert_eq!((words.get(&target, DRAINED), words.get(&target, STACKS_DRAINED)), (EVENTS - 1, 0));
    words.free(&target, EVENTS - 1);
    assert_eq!(ring.drain(&target).unwrap().len(), 1);
    assert_eq!((words.get(&target, DRAINED), words.get(&target, STACKS_DRAINED)), (EVENTS, STACKS));
}
