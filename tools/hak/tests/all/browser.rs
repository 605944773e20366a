// SPDX-License-Identifier: MIT
//! The page in a real browser, at the widths of a telephone, half a screen and a whole one.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{cc, hak, library, made};
use serde_json::Value;
use tempfile::TempDir;

const WIDTHS: [u32; 3] = [400, 800, 1400];

/// What is wrong in a page of some width: text that is wider than the page or its figure or covers
/// other text, and bars that take more room than their names need.
const INSPECTOR: &str = r"
function inspect(frame) {
  const page = frame.contentDocument, wrong = [], width = frame.clientWidth;
  const say = (what, element) => wrong.push(what + ': ' + element.textContent.trim().slice(0, 60));
  let texts = 0;
  for (const figure of page.querySelectorAll('figure, section')) {
    const all = figure.querySelectorAll('svg text, .name, .value, .ratio, .less, .more, figcaption, p');
    const boxes = [];
    for (const element of all) {
      const box = element.getBoundingClientRect();
      if (box.width > 0 && element.textContent.trim() !== '') boxes.push([element, box]);
    }
    texts += boxes.length;
    const outer = figure.getBoundingClientRect();
    boxes.forEach(([element, box], index) => {
      if (box.left < outer.left - 1 || box.right > outer.right + 1) say('cut off', element);
      const isOfSvg = element.namespaceURI.endsWith('svg');
      if (!isOfSvg && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0) say('too wide', element);
      for (const [other, its] of boxes.slice(0, index)) {
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        // Boxes of letters are higher than letters, and include the halo around them.
        if (across > 4 && down > 5) say('covers ' + other.textContent.trim().slice(0, 60), element);
      }
    });
  }
  for (const bar of page.querySelectorAll('.bar, .lead')) if (bar.clientHeight > 64) say('high', bar);
  if (page.documentElement.scrollWidth > width) wrong.push('wider than the page');
  page.querySelectorAll('details').forEach(details => { details.open = true; });
  if (page.documentElement.scrollWidth > width) wrong.push('wider than the page when it is unfolded');
  return { width, texts, wrong };
}
addEventListener('load', () => {
  const result = document.createElement('pre');
  result.textContent = 'RESULT' + JSON.stringify([...document.querySelectorAll('iframe')].map(inspect)) + 'END';
  document.body.append(result);
});
";

/// What is to be seen of the graphs in a heap profile, once its threads are unfolded: of each figure, how many of its
/// lines and frames have a size, and how many of them lie beside it. And what the page did wrong by itself.
const GRAPHS: &str = r"
let errors = 0;
addEventListener('error', () => errors++);
addEventListener('load', () => {
  document.querySelectorAll('details').forEach(details => { details.open = true; });
  const figures = [...document.querySelectorAll('figure')].map(figure => {
    const outer = figure.getBoundingClientRect();
    const boxes = [...figure.querySelectorAll('g rect, polyline')].map(one => one.getBoundingClientRect());
    const isBeside = box => box.left < outer.left || box.right > outer.right || box.bottom > outer.bottom;
    return { drawn: boxes.filter(box => box.width > 0 && box.height > 5).length, beside: boxes.filter(isBeside).length };
  });
  const names = [...document.querySelectorAll('[id]')].map(one => one.id);
  const result = document.createElement('pre');
  result.textContent = 'RESULT' + JSON.stringify({ figures, errors, twice: names.length - new Set(names).size }) + 'END';
  document.body.append(result);
});
";

struct Browser {
    program: PathBuf,
    directory: TempDir,
}

impl Browser {
    fn find() -> Option<Browser> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let program = names.iter().find_map(|name| which::which(name).ok());
        if program.is_none() {
            // Not eprintln, which the test runner would keep to itself.
            let mut errors = std::io::stderr();
            writeln!(errors, "SKIPPED: no chromium, so the page was not looked at").unwrap();
        }
        Some(Browser { program: program?, directory: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn page(&self, results: &Path) -> PathBuf {
        let page = self.path("page.html");
        hak().arg("report").arg(results).arg("--html").arg(&page).assert().success();
        page
    }

    /// Its standard output.
    fn show(&self, page: &Path, arguments: &[String]) -> Vec<u8> {
        let output = Command::new(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg("--hide-scrollbars")
            .arg(format!("--user-data-dir={}", self.path("profile").display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .stderr(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success());
        output.stdout
    }

    /// In frames, since the window of a browser cannot be as narrow as a telephone.
    fn inspect(&self, page: &Path) -> Vec<Value> {
        let text = fs::read_to_string(page).unwrap().replace('&', "&amp;").replace('"', "&quot;");
        let frames =
            WIDTHS.map(|width| format!("<iframe srcdoc=\"{text}\" style=\"width:{width}px;border:0\"></iframe>"));
        let outer = self.path("frames.html");
        fs::write(&outer, format!("<!doctype html><script>{INSPECTOR}</script><body>{}", frames.concat())).unwrap();
        let shown = self.show(&outer, &["--dump-dom".into(), "--window-size=1600,1000".into()]);
        serde_json::from_value(result_in(&shown)).unwrap()
    }
}

/// What a script has found, in a page that it has put it into.
fn result_in(shown: &[u8]) -> Value {
    let shown = String::from_utf8_lossy(shown);
    // In the script as well, so the last one.
    let result = shown.rsplit("RESULT").next().and_then(|rest| rest.split("END").next()).unwrap();
    serde_json::from_str(&result.replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<")).unwrap()
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/data/bench.json")
}

fn assert_well_laid_out(browser: &Browser, results: &Path, least_texts: u64) {
    let found = browser.inspect(&browser.page(results));
    assert_eq!(found.len(), WIDTHS.len());
    for (one, width) in found.iter().zip(WIDTHS) {
        assert_eq!(one["width"], width);
        assert!(one["texts"].as_u64().unwrap() >= least_texts, "too little was looked at: {one}");
        assert_eq!(one["wrong"], Value::Array(Vec::new()), "at a width of {width}");
    }
}

#[test]
fn a_comparison_is_readable_at_every_width() {
    let Some(browser) = Browser::find() else { return };
    let results = browser.path("results.json");
    fs::write(&results, made::comparison().to_string()).unwrap();
    // Of each of four sets of bars eleven names, values and ratios, and the names in two charts.
    assert_well_laid_out(&browser, &results, 4 * 3 * 11 + 2 * 11);
}

#[test]
fn the_suite_is_readable_at_every_width() {
    let Some(browser) = Browser::find() else { return };
    assert_well_laid_out(&browser, &data(), 30);
}

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
        let near = |pixel: &&[u8; 3]| pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 12);
        self.pixels.iter().filter(near).count()
    }
}

#[test]
fn charts_are_drawn_on_light_and_on_dark() {
    let Some(browser) = Browser::find() else { return };
    let results = browser.path("results.json");
    fs::write(&results, made::comparison().to_string()).unwrap();
    let page = browser.page(&results);
    let light = ("1", [251, 251, 250], [29, 33, 38], [195, 200, 205]);
    let dark = ("0", [20, 23, 26], [230, 232, 234], [79, 86, 93]);
    for (scheme, paper, ink, noise) in [light, dark] {
        let picture = browser.path(&format!("{scheme}.png"));
        let options = [
            format!("--blink-settings=preferredColorScheme={scheme}"),
            format!("--screenshot={}", picture.display()),
            "--window-size=1280,2400".into(),
        ];
        browser.show(&page, &options);
        let picture = Picture::read(&picture);
        assert!(picture.count(paper) > 400_000, "the page has its background");
        assert!(picture.count(ink) > 2_000, "there is text");
        assert!(picture.count([213, 94, 0]) > 10_000, "hakmem's bars are drawn");
        assert!(picture.count([132, 137, 145]) > 10_000, "glibc's bars are drawn");
        assert!(picture.count(noise) > 5_000, "what is noise is grey");
    }
}

#[test]
fn a_heap_profile_is_drawn() {
    let Some(browser) = Browser::find() else { return };
    let (program, page) = (browser.path("a<b>&\"c"), browser.path("page.html"));
    cc(&program, include_str!("data/profile_program.c"), &["-O1", "-g", "-pthread"]);
    let mut command = hak();
    command.args(["profile", "--every", "16K", "--html"]).arg(&page).arg("--library").arg(library()).arg("--");
    command.arg(program).arg("work").assert().code(7);
    let html = fs::read_to_string(&page).unwrap();
    fs::write(&page, html.replace("</head>", &format!("<script>{GRAPHS}</script></head>"))).unwrap();
    let found = result_in(&browser.show(&page, &["--dump-dom".into(), "--window-size=1400,1000".into()]));
    assert_eq!((&found["errors"], &found["twice"]), (&Value::from(0), &Value::from(0)), "{found}");
    let figures = found["figures"].as_array().unwrap();
    assert_eq!(figures[0]["drawn"], 1, "the course: {found}");
    // At the peak, at the end and in all, and both of each of two threads. What grew, and what the thread that frees
    // all had at the peak, may be little or nothing.
    let with_frames = figures[1..].iter().filter(|figure| figure["drawn"].as_u64().unwrap() >= 3).count();
    assert!(with_frames >= 6, "{found}");
    assert!(figures.iter().all(|figure| figure["beside"] == 0), "{found}");
}
