// SPDX-License-Identifier: MIT
//! `hak install` and `hak uninstall` on systems where every call may fail, and killed at every call: strace makes it so.

use std::fs::{self, File};
use std::process::{Command, Output};

use crate::common::trees::{Snapshot, Tree};
use crate::common::{BINARY, library, strace_works};
use predicates::prelude::*;
use predicates::str::contains;
use rustix::fs::{FlockOperation, flock};

/// What changes files, as both architectures name it.
const CALLS: [&str; 11] = [
    "?mkdir,?mkdirat",
    "?chmod,?fchmodat",
    "fchmod",
    "fchown",
    "write",
    "fsync",
    "?rename,?renameat",
    "renameat2",
    "?unlink,?unlinkat",
    "?rmdir",
    "flock",
];
/// More than a run has of one of them.
const MOST: usize = 40;

/// With a profile; in a root of its own, where few programs have to be tried. `None`: no strace, or no rights.
fn tree() -> Option<Tree> {
    let tree = if strace_works() { Tree::root() } else { None }?;
    tree.write(".profile", "export A=b\n", 0o640);
    tree.write("usr/local/bin/theirs", "", 0o755);
    Some(tree)
}

/// `happens` to calls of these names, `when` counts each name for itself.
fn under_strace(tree: &Tree, calls: &str, happens: &str, words: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e"]).arg(format!("inject={calls}:{happens}"));
    command.arg("--").arg(BINARY).args(words).arg("--root").arg(tree.path(""));
    command.env("HOME", "/").env_remove("XDG_CONFIG_HOME").env_remove("LD_PRELOAD");
    command.output().unwrap()
}

fn install(tree: &Tree, calls: &str, happens: &str) -> Output {
    let library = library();
    let words = ["install", "user", "--profile", "/.profile", "--library", library.to_str().unwrap()];
    under_strace(tree, calls, happens, &words)
}

/// Nothing but directories that hak had made and not yet recorded.
fn same_files(now: Snapshot, before: &Snapshot) -> bool {
    const DIRECTORY: u32 = 0o040_000;
    now.into_iter().all(|(path, its)| before.get(&path).map_or(its.0 & 0o170_000 == DIRECTORY, |old| *old == its))
        && before.keys().all(|path| path.symlink_metadata().is_ok())
}

fn uninstall_rest(tree: &Tree) {
    tree.hak_in_root(&["uninstall", "--all"]).assert().success();
}

fn profile_is_whole(tree: &Tree) {
    let text = tree.read(".profile");
    let with_lines = text.starts_with("export A=b\n#") && text.ends_with(".so' ;; esac\n");
    assert!(text == "export A=b\n" || with_lines, "{text}");
}

/// Kills what `run` starts at its first call, its second, until it is not reached any more; each time what is left is
/// taken back. Returns how often it was killed.
fn killed_at_each_call(tree: &Tree, run: impl Fn(&str, &str) -> Output) -> usize {
    let before = tree.snapshot();
    let mut killed = 0;
    for calls in CALLS {
        for number in 1..MOST {
            let whole = run(calls, &format!("signal=KILL:when={number}")).status.success();
            profile_is_whole(tree);
            uninstall_rest(tree);
            assert!(same_files(tree.snapshot(), &before), "{calls} {number}: {:#?}", tree.snapshot().keys());
            if whole {
                break;
            }
            killed += 1;
        }
    }
    killed
}

#[test]
fn killed_at_any_call_it_can_be_taken_back() {
    let Some(tree) = tree() else { return };
    let killed = killed_at_each_call(&tree, |calls, how| install(&tree, calls, how));
    assert!(killed > 25, "it was killed {killed} times");
}

#[test]
fn uninstalling_may_be_killed_at_any_call() {
    let Some(tree) = tree() else { return };
    let killed = killed_at_each_call(&tree, |calls, how| {
        assert!(install(&tree, "fsync", "signal=KILL:when=65535").status.success());
        under_strace(&tree, calls, how, &["uninstall", "user"])
    });
    assert!(killed > 15, "it was killed {killed} times");
}

#[test]
fn a_call_that_fails_leaves_nothing_behind() {
    let Some(tree) = tree() else { return };
    let before = tree.snapshot();
    let mut failed = 0;
    for calls in CALLS {
        for number in 1..MOST {
            let output = install(&tree, calls, &format!("error=ENOSPC:when={number}"));
            let said = String::from_utf8_lossy(&output.stderr);
            // That its own lines could not be printed is no reason to take anything back.
            if output.status.success() || said.contains("standard output") {
                uninstall_rest(&tree);
            }
            let now = tree.snapshot();
            assert!(same_files(now.clone(), &before), "{calls} {number}: {said}{:#?}", now.keys());
            if output.status.success() {
                break;
            }
            assert!(said.is_empty() || said.starts_with("hak: ") && said.contains("No space left"), "{said}");
            failed += 1;
        }
    }
    assert!(failed > 15, "calls failed: {failed}");
}

/// From one call on all fail, those that take back, too.
#[test]
fn a_disk_that_stays_as_it_is_is_cleared_up_later() {
    let Some(tree) = tree() else { return };
    let before = tree.snapshot();
    let calls = CALLS.join(",");
    for number in 1..8 {
        let _ = install(&tree, &calls, &format!("error=EROFS:when={number}+"));
        profile_is_whole(&tree);
        uninstall_rest(&tree);
        assert!(same_files(tree.snapshot(), &before), "from {number} on: {:#?}", tree.snapshot().keys());
    }
}

#[test]
fn two_at_a_time_do_not_meet() {
    let tree = Tree::new();
    tree.hak(&["install", "program", "cat"]).assert().success();
    let lock = File::open(tree.path("usr/lib/hakmem/installed")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let before = tree.snapshot();
    for words in [["install", "program", "ls"].as_slice(), &["uninstall", "program-cat"]] {
        tree.hak(words).assert().code(1).stderr(contains("another hak is at work there"));
    }
    assert_eq!(tree.snapshot(), before);
}

/// A record that cannot be read is left as it is, and only what it may share with others.
#[test]
fn a_record_that_is_none_concerns_itself_alone() {
    let tree = Tree::new();
    let before = tree.snapshot();
    for program in ["cat", "ls"] {
        tree.hak(&["install", "program", program]).assert().success();
    }
    let record = tree.path("usr/lib/hakmem/installed/program-cat.json");
    let text = fs::read_to_string(&record).unwrap();
    let of_another = text.replace("\"name\": \"program-cat\"", "\"name\": \"program-ls\"");
    let relative = text.replace(tree.path("usr").to_str().unwrap(), "usr");
    let newer = "{\"version\": 2, \"other\": 1}".to_owned();
    for damaged in [String::new(), "{}".into(), newer, of_another, relative] {
        fs::write(&record, &damaged).unwrap();
        let none = contains("program-cat.json is no record of hak");
        tree.hak(&["install", "list"]).assert().code(2).stdout(contains("program-ls")).stderr(none.clone());
        tree.hak(&["uninstall", "program-cat"]).assert().code(2).stderr(none.clone());
        let again = tree.path("usr/bin/cat-2");
        let install = ["install", "program", "cat", "--as", again.to_str().unwrap()];
        tree.hak(&install).assert().code(2).stderr(none.clone());
        tree.hak(&["install", "program", "true"]).assert().success();
        tree.hak(&["uninstall", "--all"]).assert().code(2).stderr(none);
        for (name, there) in [("ls", false), ("true", false), ("cat", true)] {
            assert_eq!(tree.path(&format!("usr/bin/{name}")).exists(), there, "{name}");
        }
        let served = Command::new(tree.path("usr/bin/cat")).arg("/dev/null").output().unwrap();
        assert!(served.status.success() && served.stderr.is_empty(), "the library is there: {served:?}");
        assert_eq!(fs::read_to_string(&record).unwrap(), damaged);
        fs::write(&record, &text).unwrap();
        // The last one that was taken back knows of the library.
        tree.hak(&["uninstall", "program-true"]).assert().success();
        tree.hak(&["install", "program", "ls"]).assert().success();
    }
    fs::remove_file(&record).unwrap();
    assert!(Command::new("mkfifo").arg(&record).status().unwrap().success());
    tree.hak(&["install", "list"]).assert().code(2).stderr(contains("not a regular file"));
    fs::remove_file(&record).unwrap();
    fs::write(&record, text).unwrap();
    tree.hak(&["uninstall", "--all"]).assert().success();
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn what_is_in_the_way_is_named() {
    let tree = Tree::new();
    tree.write("usr/bin/.hak-install-cat.tmp/theirs", "", 0o644);
    let before = tree.snapshot();
    let way = contains("/usr/bin/.hak-install-cat.tmp: ").and(contains("nothing stays changed"));
    tree.hak(&["install", "program", "cat"]).assert().code(1).stderr(way);
    assert_eq!(tree.snapshot(), before);
    // What comes after is not in the way of taking back.
    fs::rename(tree.path("usr/bin/.hak-install-cat.tmp"), tree.path("usr/bin/elsewhere")).unwrap();
    tree.hak(&["install", "program", "cat"]).assert().success();
    fs::rename(tree.path("usr/bin/elsewhere"), tree.path("usr/bin/.hak-install-cat.tmp")).unwrap();
    tree.hak(&["uninstall", "program-cat"]).assert().success();
    assert_eq!(tree.snapshot(), before);
}

/// user::rw-, user:65534:rw-, group::---, mask::rw-, other::---: its mask is shown as the group's rights.
fn give_access_list(path: &std::path::Path) -> bool {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1u16, 6u16, u32::MAX), (2, 6, 65534), (4, 0, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).is_ok()
}

/// As long as a file may load the library, it stays; and no file is rewritten that would be another then.
#[test]
fn what_still_names_the_library_keeps_it() {
    let tree = Tree::new();
    let profile = tree.write(".profile", "export A=b\n", 0o640);
    let install = ["install", "user", "--profile", profile.to_str().unwrap()];
    let before = tree.snapshot();
    let left = |reason: &str| {
        tree.hak(&["uninstall", "--all"]).assert().code(1).stdout(contains(reason));
        let mut there = fs::read_dir(tree.path("usr/lib/hakmem")).unwrap().flatten();
        assert!(there.any(|one| one.path().extension().is_some_and(|its| its == "so")), "{reason}");
    };

    tree.hak(&install).assert().success();
    let text = tree.read(".profile");
    fs::write(&profile, format!("{text}{}", text.replace("export A=b\n", ""))).unwrap();
    left("names the library once more");
    assert_eq!(tree.read(".profile"), text, "one of two is taken out");
    tree.hak(&["uninstall", "--all"]).assert().success();
    assert_eq!(tree.snapshot(), before);

    tree.hak(&install).assert().success();
    fs::hard_link(&profile, tree.path("other name")).unwrap();
    left("has other names");
    assert_eq!(tree.read("other name"), text);
    fs::remove_file(tree.path("other name")).unwrap();
    if give_access_list(&profile) {
        left("has an access control list");
        assert_eq!(tree.read(".profile"), text);
        rustix::fs::removexattr(&profile, "system.posix_acl_access").unwrap();
        fs::set_permissions(&profile, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    }
    tree.hak(&["uninstall", "--all"]).assert().success();
    assert_eq!(tree.snapshot(), before);
    if give_access_list(&profile) {
        let with_list = tree.snapshot();
        tree.hak(&install).assert().code(2).stderr(contains("has an access control list"));
        assert_eq!(tree.snapshot(), with_list);
    }
}

#[test]
fn a_directory_that_is_a_link_by_now_is_left() {
    let tree = Tree::new();
    tree.hak(&["install", "program", "cat"]).assert().success();
    fs::rename(tree.path("usr"), tree.path("moved")).unwrap();
    std::os::unix::fs::symlink("moved", tree.path("usr")).unwrap();
    tree.hak(&["uninstall", "--all"]).assert().success().stderr("");
    assert_eq!(fs::read_dir(tree.path("moved")).unwrap().count(), 0);
}

/// A copy that only its owner may read is none to be shared, and what cannot be mapped is none to be installed.
#[test]
fn a_library_that_would_not_be_loaded_is_refused() {
    let tree = Tree::new();
    tree.hak(&["install", "program", "cat"]).assert().success();
    let mut there = fs::read_dir(tree.path("usr/lib/hakmem")).unwrap().flatten();
    let copy = there.find(|one| one.path().extension().is_some_and(|its| its == "so")).unwrap().path();
    fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    tree.hak(&["install", "program", "ls"]).assert().code(2).stderr(contains("is there already"));
    let mounted = tree.path("mounted");
    fs::create_dir(&mounted).unwrap();
    let script =
        "mount -t tmpfs -o noexec none \"$1\" || exit 77; \"$2\" install program cat --prefix \"$1\" --library \"$3\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&mounted).arg(BINARY).arg(library());
    let Ok(output) = command.env("HOME", tree.path("")).output() else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("mounted noexec") || said.contains("mount:") || said.contains("unshare"), "{output:?}");
    assert_ne!(output.status.code(), Some(0));
}
