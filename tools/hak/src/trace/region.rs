// SPDX-License-Identifier: MIT
//! The memory that hak shares with the process that it traces; helpers/trace_ring.h says what is in it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

pub const RINGS: usize = 1024;
pub const RING_EVENTS: u64 = 32768;
const MAGIC: u64 = 0x3145_4341_5254_4b48;
const VERSION: u32 = 3;

const HEADER_BYTES: usize = 4096;
const RING_BYTES: usize = 128;
const EVENT_BYTES: usize = 16;
const EVENTS: usize = HEADER_BYTES + RINGS * RING_BYTES;
const BYTES: usize = EVENTS + RINGS * RING_EVENTS as usize * EVENT_BYTES;

/// Places in the header.
const NUMBER: usize = 64;
const STOPPED: usize = 128;
const BELL: usize = 132;
const ASLEEP: usize = 136;
const IMAGES: usize = 192;
const FAILURE: usize = 196;
const LOST: usize = 200;
const TRACED: usize = 208;
const GIVEN_UP: usize = 212;
const MARK: usize = 216;
const LAST_LOOK: usize = 220;
/// What stands there.
const LOOK_ASKED: u32 = 1;
const LOOK_DONE: u32 = 2;
/// Places in a ring.
const HEAD: usize = 0;
const TAIL: usize = 64;
const TAIL_WORD: usize = 72;
const WAITS: usize = 76;

/// Of an event's parts.
const ADDRESS_SHIFT: u32 = 4;
const ADDRESS_BITS: u32 = 48;
const NUMBER_LOW_BITS: u32 = 12;
const SIZE_BITS: u32 = 44;

/// As the process has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Its lowest bits.
    pub number: u32,
    pub op: u8,
    pub address: u64,
    pub size: u64,
}

impl Raw {
    #[inline]
    fn of(first: u64, second: u64) -> Raw {
        Raw {
            number: (first >> (64 - NUMBER_LOW_BITS)) as u32 | ((second >> SIZE_BITS) as u32) << NUMBER_LOW_BITS,
            op: (first >> ADDRESS_BITS) as u8 & 0xf,
            address: (first & ((1 << ADDRESS_BITS) - 1)) << ADDRESS_SHIFT,
            size: second & ((1 << SIZE_BITS) - 1),
        }
    }

    /// The number that is in it, where it belongs to the next event.
    pub fn more(&self) -> u64 {
        self.address >> ADDRESS_SHIFT | self.size << ADDRESS_BITS
    }
}

pub struct Region {
    file: File,
    memory: MmapRaw,
}

impl Region {
    /// Only what is used of it takes memory.
    pub fn make() -> Result<Region> {
        let descriptor = memfd_create("hak trace", MemfdFlags::CLOEXEC).context("cannot make memory to share")?;
        ftruncate(&descriptor, BYTES as u64).context("cannot make memory to share")?;
        let file = File::from(descriptor);
        let memory = MmapOptions::new().len(BYTES).map_raw(&file).context("cannot map the memory to share")?;
        let region = Region { file, memory };
        region.word(8).store(VERSION, Ordering::Relaxed);
        region.word(12).store(RINGS as u32, Ordering::Relaxed);
        region.word(16).store(RING_EVENTS as u32, Ordering::Relaxed);
        region.long(0).store(MAGIC, Ordering::Release);
        Ok(region)
    }

    /// For HAK_TRACE.
    pub fn name(&self) -> String {
        format!("{}:{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The process that the command starts is the one that records, and no other child of hak's. It says so itself,
    /// before it is the program.
    pub fn give_to(&self, command: &mut Command) {
        let traced = self.word(TRACED).as_ptr().expose_provenance();
        let say = move || {
            let traced = std::ptr::with_exposed_provenance_mut(traced);
            // SAFETY: the memory is mapped when the command is started, and everybody's accesses are atomic.
            unsafe { AtomicU32::from_ptr(traced) }.store(std::process::id(), Ordering::SeqCst);
            Ok(())
        };
        // SAFETY: it makes one system call and takes no lock.
        unsafe { command.pre_exec(say) };
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at < BYTES - 4);
        // SAFETY: inside the mapping, which lives as long, aligned, and everybody's accesses are atomic.
        unsafe { AtomicU32::from_ptr(self.memory.as_mut_ptr().add(at).cast()) }
    }

    #[inline]
    fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at <= BYTES - 8);
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().add(at).cast()) }
    }

    /// The last number that was given to an event.
    pub fn number(&self) -> u64 {
        self.long(NUMBER).load(Ordering::SeqCst)
    }

    /// Programs that this process has been, and recorded.
    pub fn images(&self) -> u32 {
        self.word(IMAGES).load(Ordering::Acquire)
    }

    /// Why a program cannot record.
    pub fn failure(&self) -> Option<std::io::Error> {
        let errno = self.word(FAILURE).load(Ordering::Acquire);
        (errno != 0).then(|| std::io::Error::from_raw_os_error(errno.cast_signed()))
    }

    /// Whether a program took hak for gone, and recorded no more.
    pub fn given_up(&self) -> bool {
        self.word(GIVEN_UP).load(Ordering::Acquire) != 0
    }

    /// Whether a process that ended while it caught these signals was a program that recorded; not known by itself of
    /// one that could not say by which signal.
    pub fn was_recorded(&self, caught: Option<u64>) -> bool {
        let mark = self.word(MARK).load(Ordering::Acquire);
        let Some(bit) = mark.checked_sub(1) else { return true };
        caught.is_none_or(|caught| caught.checked_shr(bit).unwrap_or(0) & 1 == 1)
    }

    /// Whether a program that ends waits for a last look at its memory.
    pub fn is_last_look(&self) -> bool {
        self.word(LAST_LOOK).load(Ordering::SeqCst) == LOOK_ASKED
    }

    /// It need not wait any more.
    pub fn has_looked(&self) {
        let word = self.word(LAST_LOOK);
        word.store(LOOK_DONE, Ordering::SeqCst);
        Region::wake(word);
    }

    /// The process that records.
    pub fn traced(&self) -> u32 {
        self.word(TRACED).load(Ordering::SeqCst)
    }

    pub fn lost(&self) -> u64 {
        self.long(LOST).load(Ordering::Relaxed)
    }

    /// Nobody is waited for any more, and nobody records.
    pub fn stop(&self) {
        self.word(STOPPED).store(1, Ordering::SeqCst);
        for ring in 0..RINGS {
            self.wake_writer(ring);
        }
    }

    fn ring(ring: usize) -> usize {
        HEADER_BYTES + ring * RING_BYTES
    }

    /// What has been written into a ring since the last time. None of it is written again before `read`.
    pub fn unread(&self, ring: usize) -> std::ops::Range<u64> {
        let tail = self.long(Region::ring(ring) + TAIL).load(Ordering::Relaxed);
        let head = self.long(Region::ring(ring) + HEAD).load(Ordering::Acquire);
        // The memory is the program's, too, and may have been written by mistake.
        tail..head.clamp(tail, tail + RING_EVENTS)
    }

    /// Events of what is unread, as many as lie one behind the other.
    #[inline]
    pub fn events(&self, ring: usize, unread: std::ops::Range<u64>) -> impl Iterator<Item = Raw> {
        let first = unread.start % RING_EVENTS;
        let count = (unread.end - unread.start).min(RING_EVENTS - first) as usize;
        let at = EVENTS + (ring * RING_EVENTS as usize + first as usize) * EVENT_BYTES;
        assert!(ring < RINGS);
        // SAFETY: inside the mapping, which lives as long, aligned, and everybody's accesses are atomic.
        let events = unsafe { slice::from_raw_parts(self.memory.as_ptr().add(at).cast::<[AtomicU64; 2]>(), count) };
        events.iter().map(|[first, second]| Raw::of(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)))
    }

    /// As the tracer does.
    #[cfg(test)]
    pub fn put(&self, ring: usize, raw: Raw) {
        let head = self.long(Region::ring(ring) + HEAD);
        self.put_at(ring, head.load(Ordering::Relaxed), raw);
        self.long(NUMBER).fetch_max(raw.number.into(), Ordering::SeqCst);
        head.fetch_add(1, Ordering::Release);
    }

    #[cfg(test)]
    pub fn put_at(&self, ring: usize, index: u64, raw: Raw) {
        let at = EVENTS + (ring * RING_EVENTS as usize + (index % RING_EVENTS) as usize) * EVENT_BYTES;
        let number = u64::from(raw.number);
        let first = raw.address >> ADDRESS_SHIFT | u64::from(raw.op) << ADDRESS_BITS;
        self.long(at).store(first | number << (64 - NUMBER_LOW_BITS), Ordering::Relaxed);
        self.long(at + 8).store(raw.size | number >> NUMBER_LOW_BITS << SIZE_BITS, Ordering::Relaxed);
    }

    /// All up to there may be written over.
    pub fn read(&self, ring: usize, until: u64) {
        self.long(Region::ring(ring) + TAIL).store(until, Ordering::Release);
        self.word(Region::ring(ring) + TAIL_WORD).fetch_add(1, Ordering::SeqCst);
        if self.word(Region::ring(ring) + WAITS).swap(0, Ordering::SeqCst) != 0 {
            self.wake_writer(ring);
        }
    }

    fn wake_writer(&self, ring: usize) {
        Region::wake(self.word(Region::ring(ring) + TAIL_WORD));
    }

    fn wake(word: &AtomicU32) {
        // SAFETY: FUTEX_WAKE reads nothing but the address of the word.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0usize, 0usize, 0) };
    }

    /// Until a ring is half full, or that long.
    pub fn sleep(&self, most: Duration) {
        let bell = self.word(BELL);
        let rung = bell.load(Ordering::SeqCst);
        self.word(ASLEEP).store(1, Ordering::SeqCst);
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(most.subsec_nanos()) };
        // SAFETY: both pointers are to what lives during the call.
        unsafe { libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAIT, rung, &raw const time, 0usize, 0) };
        self.word(ASLEEP).store(0, Ordering::SeqCst);
    }
}
