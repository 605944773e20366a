// SPDX-License-Identifier: MIT
//! Suites that take no time, to be run by `hak bench`.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{hakmem, write_script};

/// A workload that says truthfully who is preloaded, and does as it is told.
const WORKLOAD: &str = r#"#!/bin/sh
case "$1" in
  fail) echo "it broke" >&2; exit 1 ;;
  hang) sleep 60 ;;
  lie) echo "ops_per_s=10 metric=ops_per_s malloc_from=libother.so"; exit ;;
  crash) [ -n "$LD_PRELOAD" ] && kill -SEGV $$ ;;
esac
served=$(basename "${LD_PRELOAD:-libc.so.6}")
echo "ops_per_s=1000 resident_mib=12.5 metric=${2:-ops_per_s} memory=resident_mib malloc_from=$served"
"#;

pub struct Suite {
    pub directory: TempDir,
}

impl Suite {
    pub fn new(rows: &str) -> Suite {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("bench")).unwrap();
        fs::create_dir(directory.path().join("results")).unwrap();
        write_script(&directory.path().join("bench/work"), WORKLOAD);
        fs::write(directory.path().join("suite.toml"), rows).unwrap();
        Suite { directory }
    }

    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let path = |name: &str| self.directory.path().join(name).into_os_string();
        let mut arguments: Vec<std::ffi::OsString> =
            ["bench", "--allocators", "glibc,hakmem", "--allocator"].map(Into::into).into();
        arguments.push(hakmem());
        arguments.extend(["--suite".into(), path("suite.toml"), "--build".into(), path("")]);
        arguments.extend(["--results".into(), path("results")]);
        arguments
    }

    pub fn results(&self) -> PathBuf {
        let files = fs::read_dir(self.directory.path().join("results")).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        files.find(|path| path.extension().unwrap() == "json").unwrap()
    }
}

pub fn row(name: &str, rest: &str) -> String {
    format!("[[row]]\nname='{name}'\nfamily='test'\nkind='workload'\nquick=true\n{rest}\n")
}

pub fn row_named<'a>(results: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    results["rows"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}
