// SPDX-License-Identifier: MIT
//! Compiles the C helpers that `src/helpers.rs` embeds: a launcher and a replayer, which must be processes of
//! their own, and a probe and a tracer, which must be shared objects.

use std::path::{Path, PathBuf};

fn compile(source: &str, flags: &[&str]) {
    println!("cargo::rerun-if-changed=helpers/{source}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let output = out.join(Path::new(source).file_stem().expect("a file name"));
    let status = cc::Build::new()
        .opt_level(2)
        .debug(false)
        .get_compiler()
        .to_command()
        .args(["-std=gnu17", "-Wall", "-Wextra"])
        .arg(format!("helpers/{source}"))
        .args(flags)
        .arg("-o")
        .arg(&output)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "compiling helpers/{source} failed");
}

fn main() {
    // Static, so that it is small in memory and LD_PRELOAD does not concern it.
    compile("launch.c", &["-static", "-no-pie", "-s"]);
    compile("probe.c", &["-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-Wl,-z,now", "-s"]);
    // Its calls are to reach the allocator as they stand there.
    compile("replay.c", &["-fno-builtin", "-pthread", "-s"]);
    println!("cargo::rerun-if-changed=helpers/trace_ring.h");
    // Exceptions of operator new pass through it.
    let tracer =
        ["-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-fexceptions", "-ftls-model=initial-exec"];
    compile("trace.c", &[&tracer[..], &["-pthread", "-Wl,-z,now", "-Wl,-Bsymbolic-functions", "-s"]].concat());
}
