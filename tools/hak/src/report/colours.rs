// SPDX-License-Identifier: MIT
//! One colour for each allocator, the same on every page.
//!
//! They are told apart with each of the three common forms of colour blindness, and are seen on light
//! and on dark (a test computes both). Names stand beside them all the same.

use plotters::style::RGBColor;

use crate::allocators::{HAKMEM, SHIPPED, SYSTEM};

const KNOWN: [(&str, RGBColor); 12] = [
    (HAKMEM, RGBColor(213, 94, 0)),
    (SYSTEM, RGBColor(132, 137, 145)),
    (SHIPPED, RGBColor(121, 83, 127)),
    ("mimalloc3", RGBColor(0, 114, 178)),
    ("mimalloc-deb", RGBColor(141, 145, 255)),
    ("jemalloc", RGBColor(52, 172, 119)),
    ("jemalloc-deb", RGBColor(178, 169, 91)),
    ("tcmalloc", RGBColor(255, 154, 0)),
    ("tcmalloc-deb", RGBColor(154, 102, 61)),
    ("tbbmalloc-deb", RGBColor(218, 140, 207)),
    ("snmalloc", RGBColor(132, 83, 241)),
    ("rpmalloc", RGBColor(150, 50, 79)),
];

/// For names that only their user knows.
const OTHERS: [RGBColor; 6] = [
    RGBColor(76, 120, 188),
    RGBColor(74, 157, 78),
    RGBColor(163, 105, 190),
    RGBColor(196, 152, 30),
    RGBColor(62, 158, 160),
    RGBColor(166, 118, 92),
];

/// Those of one page.
pub struct Colours(Vec<(String, RGBColor)>);

impl Colours {
    pub fn new(names: impl IntoIterator<Item = String>) -> Colours {
        let mut colours: Vec<(String, RGBColor)> = Vec::new();
        for name in names {
            if colours.iter().any(|(other, _)| *other == name) {
                continue;
            }
            let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour);
            // By its name, so that it is the same on the next page; unless another has that one here.
            let free = |index: &usize| colours.iter().all(|(_, other)| *other != OTHERS[*index]);
            let first = hash(&name) % OTHERS.len();
            let others = || (first..OTHERS.len()).chain(0..first).find(free).unwrap_or(first);
            colours.push((name.clone(), known.unwrap_or_else(|| OTHERS[others()])));
        }
        Colours(colours)
    }

    pub fn of(&self, name: &str) -> RGBColor {
        self.0.iter().find(|(other, _)| other == name).map_or(OTHERS[0], |(_, colour)| *colour)
    }

    pub fn css(&self, name: &str) -> String {
        let RGBColor(red, green, blue) = self.of(name);
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// FNV-1a, which is the same in every build.
fn hash(name: &str) -> usize {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    type Light = [f64; 3];

    fn linear(RGBColor(red, green, blue): RGBColor) -> Light {
        [red, green, blue].map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// All of it, and without one of the three kinds of cones (Machado, Oliveira and Fernandes, "A
    /// physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6), 2009).
    const SIGHTS: [[Light; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// CIE 1976 L*a*b* of what is seen.
    fn seen(colour: RGBColor, sight: &[Light; 3]) -> Light {
        let light = linear(colour);
        let dot = |row: &Light, of: &Light| row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>();
        let rgb = [0, 1, 2].map(|i| dot(&sight[i], &light).clamp(0.0, 1.0));
        let xyz = [
            dot(&[0.4124, 0.3576, 0.1805], &rgb) / 0.95047,
            dot(&[0.2126, 0.7152, 0.0722], &rgb),
            dot(&[0.0193, 0.1192, 0.9505], &rgb) / 1.08883,
        ];
        let [x, y, z] = xyz.map(|part| if part > 0.008856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// As the Web Content Accessibility Guidelines 2.1 define it.
    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let luminance = |colour: RGBColor| {
            let [red, green, blue] = linear(colour);
            0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    #[test]
    fn colours_are_told_apart_by_everybody() {
        for (index, (name, colour)) in KNOWN.iter().enumerate() {
            for (other, its) in &KNOWN[..index] {
                for sight in &SIGHTS {
                    let (a, b) = (seen(*colour, sight), seen(*its, sight));
                    let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    // What can just be told apart side by side is 2.3.
                    assert!(distance > 15.0, "{name} and {other}: {distance}");
                }
            }
        }
    }

    /// `--card` of page.css, light and dark.
    #[test]
    fn colours_are_seen_on_light_and_dark() {
        for (name, colour) in KNOWN {
            for paper in [RGBColor(255, 255, 255), RGBColor(28, 32, 36)] {
                assert!(contrast(colour, paper) > 2.0, "{name}");
            }
        }
    }

    #[test]
    fn a_colour_depends_on_the_name_alone() {
        let names = |names: &[&str]| Colours::new(names.iter().map(|name| (*name).to_owned()));
        let (one, other) = (names(&["mine", "hakmem", "jemalloc"]), names(&["jemalloc", "hakmem", "x", "mine"]));
        for name in ["hakmem", "jemalloc", "mine"] {
            assert_eq!(one.css(name), other.css(name), "{name}");
        }
        assert_eq!(one.css("hakmem"), "#d55e00");
        // Those that nobody knows have colours of their own as long as there are some.
        let unknown = names(&["a", "b", "c", "d", "e", "f"]);
        let mut colours: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(|name| unknown.css(name)).to_vec();
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), 6);
    }
}
