// SPDX-License-Identifier: MIT
//! Whether a file is the one that it was.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::Crc;

/// Length and CRC-32: enough against an accident, and nobody is to be deceived.
pub fn of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut crc = Crc::new();
    let (mut length, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(format!("{length}-{:08x}", crc.sum()));
        }
        crc.update(&buffer[..count]);
        length += count;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_of_all_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "123456789").unwrap();
        // The check value that descriptions of CRC-32 give.
        assert_eq!(super::of(&file).unwrap(), "9-cbf43926");
        let mut long = vec![7u8; 200_000];
        std::fs::write(&file, &long).unwrap();
        let before = super::of(&file).unwrap();
        long[199_999] = 8;
        std::fs::write(&file, &long).unwrap();
        assert_ne!(super::of(&file).unwrap(), before);
    }
}
