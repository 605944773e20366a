//! Compiles the C sources of hakmem into one object in which only its public names are left, so that
//! no function of a program meets one of the allocator's, and links that. Needs a C compiler and
//! binutils, nothing else. The flags are those of CMakeLists.txt at the root of the repository.
//!
//! SPDX-License-Identifier: MIT
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What serves the C library's names; the features `malloc` and `background` bring these back.
const MALLOC: [&str; 3] = ["api/libc.c", "api/info.c", "api/mallopt.c"];
const BACKGROUND: &str = "api/threads.c";
/// C++'s operators: those of the C++ library call malloc.
const OPERATORS: &str = "api/operators.c";
/// dlopen and dlsym, for programs that know nothing of hakmem.
const LOADER: &str = "api/loader.c";

const FLAGS: [&str; 11] = [
    "-std=gnu17",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-fno-builtin-aligned_alloc",
    "-falign-functions=64",
    "-fvisibility=hidden",
    "-fno-plt",
    "-fno-strict-aliasing",
    "-w",
];
const FLAGS_OF_GCC: &str = "-fno-tree-slsr";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c");
    if let Err(problem) = check_target().and_then(|()| build()) {
        println!("cargo::error={problem}"); // fails the build, with this alone
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

fn check_target() -> Result<(), String> {
    let target = variable("TARGET");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        return Err(format!("hakmem runs on Linux only, and the target is {target}"));
    }
    if !["x86_64", "aarch64"].contains(&variable("CARGO_CFG_TARGET_ARCH").as_str()) {
        return Err(format!("hakmem runs on x86-64 and aarch64 only, and the target is {target}"));
    }
    if variable("CARGO_CFG_TARGET_ENV") != "gnu" || variable("CARGO_CFG_TARGET_POINTER_WIDTH") != "64" {
        let arch = variable("CARGO_CFG_TARGET_ARCH");
        return Err(format!("hakmem needs glibc (the target {arch}-unknown-linux-gnu), and the target is {target}"));
    }
    Ok(())
}

fn build() -> Result<(), String> {
    let sources = sources(Path::new("c/src"))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: cargo runs this")?);
    let objects = out.join("objects");
    std::fs::create_dir_all(&objects).map_err(|error| format!("{}: {error}", objects.display()))?;

    // Never as slow as a debug build: it is a part of the program that nobody steps through.
    let mut build = cc::Build::new();
    build.files(sources).opt_level(2).define("_GNU_SOURCE", None).define("NDEBUG", None).out_dir(&objects);
    build.flags(FLAGS);
    let compiler = build.get_compiler();
    // As libhakmem.so is: optimised as a whole. What comes out is an ordinary object.
    let whole = compiler.is_like_gnu() && !compiler.is_like_clang();
    if whole {
        build.flags([FLAGS_OF_GCC, "-flto", "-fno-fat-lto-objects"]);
    }
    let objects = build.try_compile_intermediates().map_err(|error| error.to_string())?;

    let compiler = build.get_compiler();
    let (joined, hidden) = (out.join("joined.o"), out.join("hakmem.o"));
    let mut join = compiler.to_command();
    join.args(["-r", "-nostdlib", "-o"]).arg(&joined).args(&objects);
    if whole {
        join.args(["-flinker-output=nolto-rel", "-flto=auto"]);
    }
    run(join)?;
    let mut hide = Command::new(objcopy(&compiler));
    hide.arg("--localize-hidden").arg(&joined).arg(&hidden);
    run(hide).map_err(|problem| format!("{problem} (it belongs to binutils; the variable OBJCOPY names another)"))?;
    cc::Build::new().object(&hidden).try_compile("hakmem").map_err(|error| error.to_string())?;
    let include = Path::new(&variable("CARGO_MANIFEST_DIR")).join("c/include");
    println!("cargo::metadata=include={}", include.display());
    Ok(())
}

/// The C files of the layers, less those of surfaces that are not asked for.
fn sources(root: &Path) -> Result<Vec<PathBuf>, String> {
    // A static program has no next pthread_create to find.
    let is_static = variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    let wanted = |path: &Path| {
        let name = path.strip_prefix(root).unwrap_or(path);
        !(name == Path::new(OPERATORS)
            || name == Path::new(LOADER)
            || !feature("MALLOC") && MALLOC.iter().any(|file| name == Path::new(file))
            || (!feature("BACKGROUND") || is_static) && name == Path::new(BACKGROUND))
    };
    let read = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        let entries = std::fs::read_dir(folder).map_err(failed)?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
    };
    let mut files = Vec::new();
    for layer in read(root)?.iter().filter(|path| path.is_dir()) {
        let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c") && wanted(path);
        files.extend(read(layer)?.into_iter().filter(is_source));
    }
    files.sort();
    if files.is_empty() { Err(format!("there are no C files below {}", root.display())) } else { Ok(files) }
}

/// The one that belongs to the compiler, which may be a cross compiler.
fn objcopy(compiler: &cc::Tool) -> OsString {
    println!("cargo::rerun-if-env-changed=OBJCOPY");
    if let Some(name) = env::var_os("OBJCOPY") {
        return name;
    }
    let said = compiler.to_command().arg("-print-prog-name=objcopy").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if said.is_empty() { "objcopy".into() } else { said.into() }
}

fn run(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().last().unwrap_or("it says nothing");
    Err(format!("{name} failed ({}): {said}", output.status))
}
