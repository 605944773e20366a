// SPDX-License-Identifier: MIT
//! Where the names in a picture go, so that none covers another.
//!
//! How wide a text is only the browser knows. What is assumed here is as wide as DejaVu Sans at 12 px, which is
//! one of the widest, and a little more.

pub const LINE: i32 = 15;

pub fn text_width(text: &str) -> i32 {
    let letter = |letter: char| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ' ' => 4.0,
        'f' | 'r' | 't' | '-' | '(' | ')' => 5.2,
        'm' | 'w' | 'M' | 'W' => 12.2,
        // Those of other scripts may be as wide as they are high.
        letter if letter.is_ascii() => 8.0,
        _ => 13.0,
    };
    text.chars().map(letter).sum::<f64>().ceil() as i32
}

/// The middle of the left edge, and the width; all are one line high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    pub x: i32,
    pub y: i32,
    pub width: i32,
}

impl Place {
    fn meets(&self, other: &Place) -> bool {
        self.x < other.x + other.width && other.x < self.x + self.width && (self.y - other.y).abs() < LINE
    }
}

/// Near a point, as there is room: to its right or left, or over or under it, by whole lines.
pub fn beside(point: (i32, i32), text: &str, taken: &[Place], xs: (i32, i32), ys: (i32, i32)) -> Place {
    const GAP: i32 = 12;
    let width = text_width(text);
    let sides = [point.0 + GAP, point.0 - GAP - width, point.0 - width / 2];
    let steps = (0..40).map(|step: i32| (step + 1) / 2 * LINE * if step % 2 == 0 { 1 } else { -1 });
    let places = steps.flat_map(|step| sides.map(|x| Place { x, y: point.1 + step, width }));
    let inside = |place: &Place| {
        place.x >= xs.0 && place.x + place.width <= xs.1 && place.y - LINE / 2 >= ys.0 && place.y + LINE / 2 <= ys.1
    };
    let free = |place: &Place| taken.iter().all(|other| !place.meets(other));
    let mut places = places.filter(|place| inside(place) && free(place));
    places.next().unwrap_or(Place { x: sides[0], y: point.1, width })
}

/// One below the other in the order of their wishes, and together as near to these as that allows: those
/// that would meet stand around their middle. Where there is no room for all, they go beyond the bottom.
pub fn stacked(wanted: &[i32], ys: (i32, i32)) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|index| wanted[*index]);
    // How far each is from where it would stand if all stood on the top: that may not become less.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (line, &index) in order.iter().enumerate() {
        let mut group = (f64::from(wanted[index] - line as i32 * LINE), 1);
        while let Some((sum, size)) = groups.pop_if(|(sum, size)| *sum / *size as f64 > group.0 / group.1 as f64) {
            group = (group.0 + sum, group.1 + size);
        }
        groups.push(group);
    }
    let last = ys.1 - (wanted.len().max(1) as i32 - 1) * LINE;
    let offset = |(sum, size): (f64, usize)| ((sum / size as f64).round() as i32).min(last).max(ys.0);
    let offsets = groups.iter().flat_map(|group| std::iter::repeat_n(offset(*group), group.1));
    let mut places = vec![0; wanted.len()];
    for (line, (index, offset)) in order.into_iter().zip(offsets).enumerate() {
        places[index] = offset + line as i32 * LINE;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_points_do_not_meet() {
        let mut taken: Vec<Place> = Vec::new();
        for index in 0..11 {
            let place = beside((200 + index, 100 + index % 3), "tbbmalloc-deb", &taken, (0, 400), (0, 200));
            assert!(taken.iter().all(|other| !place.meets(other)), "{place:?} {taken:?}");
            assert!(place.x >= 0 && place.x + place.width <= 400 && place.y > 0 && place.y < 200);
            taken.push(place);
        }
        // At the right edge it goes to the left.
        assert!(beside((395, 100), "hakmem", &[], (0, 400), (0, 200)).x < 395);
    }

    #[test]
    fn stacked_names_keep_their_order_and_their_distance() {
        let places = stacked(&[100, 98, 20, 101, 199], (0, 200));
        assert_eq!(places, [100, 85, 20, 115, 199]);
        // Pushed back up by the bottom.
        assert_eq!(stacked(&[195, 199], (0, 200)), [185, 200]);
        let crowded = stacked(&[5; 20], (0, 60));
        let mut sorted = crowded.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LINE), "{sorted:?}");
    }
}
