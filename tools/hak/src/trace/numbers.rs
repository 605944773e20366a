// SPDX-License-Identifier: MIT
//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first.

use anyhow::{Result, bail};

#[inline]
pub fn put(bytes: &mut Vec<u8>, number: u64) {
    // Without a branch, as how long a number is can hardly be foretold: four bytes, of which those stay that count.
    if number < 1 << 28 {
        let low = number as u32;
        let spread = low & 0x7f | (low & 0x3f80) << 1 | (low & 0x1f_c000) << 2 | (low & 0xfe0_0000) << 3;
        let length = (low | 1).ilog2() / 7 + 1;
        let goes_on = 0x0080_8080 & ((1u32 << (8 * (length - 1))) - 1);
        bytes.extend_from_slice(&(spread | goes_on).to_le_bytes());
        bytes.truncate(bytes.len() - 4 + length as usize);
    } else {
        put_long(bytes, number);
    }
}

#[cold]
fn put_long(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A difference, so that small ones of either sign are small.
pub fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, fold(number));
}

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
        differences.iter().for_each(|number| put_signed(&mut bytes, *number));
        let mut rest = bytes.as_slice();
        numbers.iter().for_each(|number| assert_eq!(take(&mut rest).unwrap(), *number));
        differences.iter().for_each(|number| assert_eq!(take_signed(&mut rest).unwrap(), *number));
        assert!(rest.is_empty() && take(&mut rest).is_err());
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
