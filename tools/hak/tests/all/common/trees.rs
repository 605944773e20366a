// SPDX-License-Identifier: MIT
//! A directory to install into, which can be compared with itself, and a root that is enough to try programs in.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{hak, library};

/// Mode, owner, and bytes or where a link leads, of everything below.
pub type Snapshot = BTreeMap<PathBuf, (u32, u32, Vec<u8>)>;

pub struct Tree(TempDir);

impl Tree {
    /// The directory is one that everybody may enter, as /usr is.
    pub fn new() -> Tree {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Tree(directory)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot::new();
        let mut left = vec![self.0.path().to_path_buf()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let its = path.symlink_metadata().unwrap();
                let content = if its.is_dir() {
                    left.push(path.clone());
                    Vec::new()
                } else if its.is_symlink() {
                    fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
                } else {
                    fs::read(&path).unwrap()
                };
                all.insert(path, (its.mode(), its.uid(), content));
            }
        }
        all
    }

    /// `hak install` or `uninstall` with this directory as home and prefix.
    pub fn hak(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = hak();
        command
            .args(words)
            .arg("--prefix")
            .arg(self.path("usr"))
            .env("HOME", self.0.path())
            .env_remove("XDG_CONFIG_HOME");
        if words[0] == "install" && words[1] != "list" {
            command.arg("--library").arg(library());
        }
        command
    }

    /// The same with this directory as the root.
    pub fn hak_in_root(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = hak();
        command.args(words).arg("--root").arg(self.0.path());
        if words[0] == "install" && words[1] != "list" {
            command.arg("--library").arg(library());
        }
        command
    }

    /// Programs of this system with what they are linked with. `None`: only root may have a root.
    pub fn root() -> Option<Tree> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return None;
        }
        let tree = Tree::new();
        for program in ["sh", "ls", "cat", "true"] {
            let from = which::which(program).unwrap().canonicalize().unwrap();
            tree.copy(&from, &format!("bin/{program}"));
            let output = Command::new("ldd").arg(&from).output().unwrap();
            for word in String::from_utf8(output.stdout).unwrap().split_whitespace() {
                if let Some(inside) = word.strip_prefix('/') {
                    tree.copy(Path::new(word), inside);
                }
            }
        }
        // hak's own library is linked with these alone.
        let libc = tree.libraries();
        assert!(libc > 0, "there is a C library in the root");
        tree.write("etc/passwd", "root:x:0:0::/:/bin/sh\n", 0o644);
        Some(tree)
    }

    fn libraries(&self) -> usize {
        self.snapshot().keys().filter(|path| path.to_string_lossy().contains("libc.so")).count()
    }

    fn copy(&self, from: &Path, to: &str) {
        let to = self.path(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if !to.exists() {
            fs::copy(from, &to).unwrap();
        }
    }
}
