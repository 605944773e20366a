// SPDX-License-Identifier: MIT
//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first.

use anyhow::{Result, bail};

/// No number takes more bytes.
const MOST_BYTES: usize = 10;

#[inline]
pub fn put(bytes: &mut Vec<u8>, number: u64) {
    let (spread, length) = spread(number);
    bytes.extend_from_slice(&spread.to_le_bytes()[..length]);
    if length == 0 {
        put_long(number, |byte| bytes.push(byte));
    }
}

/// The bytes of a number below 2^28, and how many of them count. Without a branch, as how long a number is can hardly
/// be foretold. 0: it is larger.
#[inline]
fn spread(number: u64) -> (u32, usize) {
    if number >= 1 << 28 {
        return (0, 0);
    }
    const GOES_ON: [u32; 5] = [0, 0, 0x80, 0x8080, 0x0080_8080];
    let low = number as u32;
    let spread = low & 0x7f | (low & 0x3f80) << 1 | (low & 0x1f_c000) << 2 | (low & 0xfe0_0000) << 3;
    let length = (low | 1).ilog2() as usize / 7 + 1;
    (spread | GOES_ON[length], length)
}

#[cold]
fn put_long(mut number: u64, mut push: impl FnMut(u8)) {
    while number >= 0x80 {
        push(number as u8 | 0x80);
        number >>= 7;
    }
    push(number as u8);
}

/// Numbers one behind the other, up to so many, with room for all of them from the start: then each costs no question
/// but one whether there is room.
pub struct Column {
    bytes: Box<[u8]>,
    length: usize,
}

impl Column {
    pub fn of(most: usize) -> Column {
        Column { bytes: vec![0; (most + 1) * MOST_BYTES].into_boxed_slice(), length: 0 }
    }

    #[inline]
    pub fn put(&mut self, number: u64) {
        // Most are that small, and which ones can be foretold.
        if number < 0x80 {
            self.bytes[self.length] = number as u8;
            self.length += 1;
            return;
        }
        let (spread, length) = spread(number);
        self.bytes[self.length..][..4].copy_from_slice(&spread.to_le_bytes());
        self.length += length;
        if length == 0 {
            self.put_long(number);
        }
    }

    #[cold]
    fn put_long(&mut self, number: u64) {
        put_long(number, |byte| {
            self.bytes[self.length] = byte;
            self.length += 1;
        });
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }
}

/// A difference, so that small ones of either sign are small.
#[inline]
pub fn fold(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// From the front of `bytes`, which then begin behind it.
pub fn take(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else { bail!("a number is cut off") };
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    bail!("a number has more than 64 bits")
}

pub fn take_signed(bytes: &mut &[u8]) -> Result<i64> {
    let folded = take(bytes)?;
    Ok((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        let mut bytes = Vec::new();
        let ends = (1..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits]);
        let numbers: Vec<u64> = ends.chain([0, u64::MAX]).collect();
        let differences = [0, -1, 1, 63, -64, 64, i64::MIN, i64::MAX];
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        differences.iter().for_each(|number| put(&mut bytes, fold(*number)));
        let mut rest = bytes.as_slice();
        numbers.iter().for_each(|number| assert_eq!(take(&mut rest).unwrap(), *number));
        differences.iter().for_each(|number| assert_eq!(take_signed(&mut rest).unwrap(), *number));
        assert!(rest.is_empty() && take(&mut rest).is_err());
    }

    #[test]
    fn a_column_has_the_same_bytes() {
        let numbers: Vec<u64> = (0..64).flat_map(|bits| [1 << bits, (1 << bits) - 1, u64::MAX >> bits]).collect();
        let (mut column, mut bytes) = (Column::of(numbers.len()), Vec::new());
        for _ in 0..2 {
            for number in &numbers {
                column.put(*number);
                put(&mut bytes, *number);
            }
            assert_eq!(column.bytes(), bytes);
            column.clear();
            bytes.clear();
        }
    }

    #[test]
    fn none_takes_more_bytes_than_it_needs() {
        for bits in 1..=64 {
            for number in [u64::MAX >> (64 - bits), 1 << (bits - 1)] {
                let mut bytes = Vec::new();
                put(&mut bytes, number);
                assert_eq!(bytes.len(), (bits as usize).div_ceil(7), "{number}");
            }
        }
    }

    #[test]
    fn a_number_without_an_end_is_an_error() {
        for bytes in
            [&[0xff; 9][..], &[0xff; 10], &[0xff; 100], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert!(take(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }
}
