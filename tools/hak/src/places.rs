// SPDX-License-Identifier: MIT
//! Where the tool finds the rest of the project.

use std::env;
use std::path::{Path, PathBuf};

/// A build tree: `libhakmem.so`, `bench/` (workloads), `peers/`, `bench-inputs/`.
pub struct Build(PathBuf);

impl Build {
    /// The given directory, else the one that this program lies in, else the source tree's own.
    pub fn find(given: Option<&Path>) -> Build {
        if let Some(directory) = given {
            return Build(directory.to_path_buf());
        }
        match own_directory() {
            Some(own) if own.join("libhakmem.so").exists() || own.join("peers").exists() => Build(own),
            _ => Build(source().join("build")),
        }
    }

    pub fn library(&self) -> PathBuf {
        self.0.join("libhakmem.so")
    }

    pub fn workloads(&self) -> PathBuf {
        self.0.join("bench")
    }

    pub fn peers(&self) -> PathBuf {
        self.0.join("peers")
    }

    pub fn inputs(&self) -> PathBuf {
        self.0.join("bench-inputs")
    }
}

/// The directory that this program lies in.
pub fn own_directory() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.to_path_buf())
}

/// The source tree that this program was built from. It may be gone on another machine; what is published
/// names another place, which does not depend on where it was built.
pub fn source() -> PathBuf {
    match option_env!("HAK_SOURCE") {
        Some(source) => source.into(),
        None => {
            let here = Path::new(env!("CARGO_MANIFEST_DIR"));
            here.ancestors().nth(2).expect("tools/hak lies two levels deep").to_path_buf()
        }
    }
}

/// Debian's name for the architecture's library directory.
pub fn multiarch() -> String {
    format!("{}-linux-gnu", env::consts::ARCH)
}
