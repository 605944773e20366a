// SPDX-License-Identifier: MIT
//! The page in a real browser: something has to be seen, on light and on dark.

mod common;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::hak;

struct Picture {
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn read(path: &Path) -> Picture {
        let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let size = info.color_type.samples();
        let pixels = bytes[..info.buffer_size()].chunks(size).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
        Picture { pixels: pixels.collect() }
    }

    /// How many pixels have about this colour.
    fn count(&self, colour: [u8; 3]) -> usize {
        let near = |pixel: &&[u8; 3]| pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 30);
        self.pixels.iter().filter(near).count()
    }
}

#[test]
fn charts_are_drawn_on_light_and_on_dark() {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = browsers.iter().find_map(|name| which::which(name).ok()) else {
        // Not eprintln, which the test runner would keep to itself.
        writeln!(std::io::stderr(), "SKIPPED: no chromium, so the page was not looked at").unwrap();
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bench.json");
    hak().arg("report").arg(data).arg("--html").arg(&page).assert().success();

    for (scheme, paper, ink) in [("1", [251, 251, 250], [29, 33, 38]), ("0", [20, 23, 26], [230, 232, 234])] {
        let picture = directory.path().join(format!("{scheme}.png"));
        let status = Command::new(&browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--hide-scrollbars", "--window-size=1280,2000"])
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--user-data-dir={}", directory.path().join(format!("profile-{scheme}")).display()))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{}", page.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let picture = Picture::read(&picture);
        assert!(picture.count(paper) > 500_000, "the page has its background");
        assert!(picture.count(ink) > 2_000, "there is text");
        // hakmem's bars and dot; and glibc's, whose bars cover the card's colour by 60 %.
        assert!(picture.count([228, 87, 46]) > 5_000, "hakmem's bars are drawn");
        let card = if scheme == "1" { [255.0, 255.0, 255.0] } else { [28.0, 32.0, 36.0] };
        let glibc = [132.0, 137.0, 145.0];
        let mixed: Vec<u8> = (0..3).map(|i| (glibc[i] * 0.6 + card[i] * 0.4) as u8).collect();
        assert!(picture.count([mixed[0], mixed[1], mixed[2]]) > 3_000, "glibc's bars are drawn");
    }
}
