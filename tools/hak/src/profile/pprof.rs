// SPDX-License-Identifier: MIT
//! The form of pprof: profile.proto, compressed.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::profile::Profile;
use crate::profile::modules::Place;
use crate::profile::names::{NO_STACK, Names};
use crate::profile::samples::Value;

/// The messages of profile.proto, with the fields that are used.
pub mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub kind: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub text: i64,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub file_offset: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "8")]
        pub has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub has_inline_frames: bool,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// Objects and bytes: what go's heap profiles call these, and the peak.
const TYPES: [(&str, &str, Value); 6] = [
    ("alloc_objects", "count", Value::Allocated),
    ("alloc_space", "bytes", Value::Allocated),
    ("peak_objects", "count", Value::Peak),
    ("peak_space", "bytes", Value::Peak),
    ("inuse_objects", "count", Value::Live),
    ("inuse_space", "bytes", Value::Live),
];

#[derive(Default)]
struct Strings {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Strings {
    fn of(&mut self, text: &str) -> i64 {
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        let index = self.all.len() as i64;
        self.all.push(text.into());
        self.known.insert(text.into(), index);
        index
    }
}

struct Writer<'a> {
    strings: Strings,
    locations: Vec<proto::Location>,
    places: HashMap<Option<Place>, u64>,
    functions: Vec<proto::Function>,
    names: Names<'a>,
    known: HashMap<(i64, i64), u64>,
}

impl Writer<'_> {
    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.strings.of(name), self.strings.of(file));
        let id = self.functions.len() as u64 + 1;
        let known = *self.known.entry((name, filename)).or_insert(id);
        if known == id {
            self.functions.push(proto::Function { id, name, system_name: name, filename });
        }
        known
    }

    /// `None`: of what has no stack.
    fn location(&mut self, place: Option<Place>) -> u64 {
        if let Some(id) = self.places.get(&place) {
            return *id;
        }
        let frames = place.map_or_else(Vec::new, |place| self.names.frames(place).to_vec());
        let mut lines = Vec::new();
        for frame in &frames {
            let function_id = self.function(&frame.name, frame.file.as_deref().unwrap_or_default());
            lines.push(proto::Line { function_id, line: i64::from(frame.line.unwrap_or(0)) });
        }
        if place.is_none() {
            lines.push(proto::Line { function_id: self.function(NO_STACK, ""), line: 0 });
        }
        let id = self.locations.len() as u64 + 1;
        let mapping_id = place.and_then(|place| place.module).map_or(0, |module| module as u64 + 1);
        let address = place.map_or(0, |place| place.address);
        self.locations.push(proto::Location { id, mapping_id, address, line: lines });
        self.places.insert(place, id);
        id
    }
}

/// Sums by stack and thread, of each of the types.
type Sums = HashMap<(usize, u32), [f64; 6]>;

fn sums(profile: &Profile) -> Sums {
    let mut sums = Sums::new();
    for sample in &profile.samples.all {
        let of = sums.entry((sample.stack, sample.thread)).or_default();
        for (sum, (_, unit, value)) in of.iter_mut().zip(TYPES) {
            let share = profile.samples.share(sample, value, profile.growth);
            *sum += share * if unit == "count" { sample.count } else { sample.bytes };
        }
    }
    sums
}

pub fn message(profile: &Profile) -> proto::Profile {
    let mut writer = Writer {
        strings: Strings::default(),
        locations: Vec::new(),
        places: HashMap::new(),
        functions: Vec::new(),
        names: Names::new(&profile.modules, &profile.library),
        known: HashMap::new(),
    };
    writer.strings.of("");
    let mut all: Vec<_> = sums(profile).into_iter().collect();
    all.sort_by_key(|(key, _)| *key);
    let key = writer.strings.of("thread");
    let mut samples = Vec::new();
    for ((stack, thread), sums) in all {
        let places = writer.names.of_program(&profile.samples.stacks[stack]);
        let location_id = match places {
            [] => vec![writer.location(None)],
            places => places.iter().map(|place| writer.location(Some(*place))).collect(),
        };
        let text = writer.strings.of(&profile.thread(thread));
        let value = sums.iter().map(|sum| sum.round() as i64).collect();
        samples.push(proto::Sample { location_id, value, label: vec![proto::Label { key, text }] });
    }
    let mut mapping = Vec::new();
    for (index, module) in profile.modules.all.iter().enumerate() {
        mapping.push(proto::Mapping {
            id: index as u64 + 1,
            memory_start: module.from,
            memory_limit: module.to,
            file_offset: module.offset,
            filename: writer.strings.of(&module.path),
            // Said even of those without names, or pprof would look for files itself, and find others.
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
    }
    let strings = &mut writer.strings;
    let mut kind = |name: &str, unit: &str| proto::ValueType { kind: strings.of(name), unit: strings.of(unit) };
    let sample_type = TYPES.iter().map(|(name, unit, _)| kind(name, unit)).collect();
    let period_type = Some(kind("space", "bytes"));
    let comment = profile.remarks().iter().map(|remark| writer.strings.of(remark)).collect();
    let default_sample_type = writer.strings.of("peak_space");
    proto::Profile {
        sample_type,
        sample: samples,
        mapping,
        location: writer.locations,
        function: writer.functions,
        time_nanos: i64::try_from(profile.started.as_nanos()).unwrap_or(0),
        duration_nanos: i64::try_from(profile.lasted_ms).unwrap_or(0).saturating_mul(1_000_000),
        period_type,
        period: i64::try_from(profile.mean_bytes).unwrap_or(0),
        comment,
        default_sample_type,
        string_table: writer.strings.all,
    }
}

pub fn bytes(profile: &Profile) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&message(profile).encode_to_vec())?;
    Ok(encoder.finish()?)
}
