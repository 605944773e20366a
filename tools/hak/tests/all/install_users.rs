// SPDX-License-Identifier: MIT
//! `hak install` by users who are not root, with their files in its way, and in places that others can change.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::trees::Tree;
use crate::common::{BINARY, cc, hak, library, write_script};
use predicates::prelude::*;
use predicates::str::contains;

const NOBODY: u32 = 65534;

/// A copy of hak and library that whoever is not root can read, and what starts it as such a user.
fn as_a_user(tree: &Tree) -> (Command, PathBuf) {
    let (copy, own) = (tree.path("hak"), tree.path("libhakmem.so"));
    fs::copy(BINARY, &copy).unwrap();
    fs::copy(library(), &own).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    if !rustix::process::geteuid().is_root() {
        command = Command::new(tree.path("hak"));
    }
    command.env_remove("LD_PRELOAD").env_remove("XDG_CONFIG_HOME");
    (command, own)
}

#[test]
fn whoever_is_not_root_may_install_for_the_own_session() {
    // Programs such as su, which give rights, do not load what such a user preloads.
    let su = which::which("su").unwrap();
    assert!(fs::metadata(su).unwrap().permissions().mode() & 0o4000 != 0, "there is a program to leave out");
    let tree = Tree::new();
    let home = tree.path("home");
    fs::create_dir(&home).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let (mut command, own) = as_a_user(&tree);
    let mut lost = Command::new(command.get_program());
    let lost = lost.args(command.get_args()).args(["install", "list"]).env("HOME", "here").output().unwrap();
    assert!(String::from_utf8_lossy(&lost.stderr).contains("--prefix"), "{lost:?}");
    let output = command.args(["install", "user", "--library"]).arg(own).env("HOME", &home).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(home.join(".config/environment.d/60-hakmem.conf").exists());

    // Root does not do what a record says that somebody else could have written.
    if rustix::process::geteuid().is_root() {
        let prefix = home.join(".local");
        for words in [["uninstall", "--all"].as_slice(), &["install", "program", "cat"]] {
            let mut command = hak();
            command.args(words).arg("--prefix").arg(&prefix);
            if words[0] == "install" {
                command.arg("--library").arg(library());
            }
            command.assert().code(2).stderr(contains("it is not root's"));
        }
        assert!(home.join(".config/environment.d/60-hakmem.conf").exists());
    }
}

#[test]
fn a_profile_is_read_whatever_the_prefix_is_called() {
    let tree = Tree::new();
    let profile = tree.write(".profile", "", 0o640);
    let mut command = hak();
    command.args(["install", "user", "--profile"]).arg(&profile).arg("--library").arg(library());
    command.arg("--prefix").arg(tree.path("a(b)&c|d<e>f")).env("HOME", tree.path("")).env_remove("XDG_CONFIG_HOME");
    command.assert().success();
    let script = format!(". {}; echo \"$LD_PRELOAD\"", profile.display());
    let out = Command::new("sh").args(["-c", &script]).env_remove("LD_PRELOAD").output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(Path::new(said.trim()).is_file(), "{said}");
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// A shim starts the next of its name along PATH, without its own directory: with the wrapper there, that is it.
#[test]
fn a_shim_does_not_start_its_wrapper_for_ever() {
    let tree = Tree::new();
    for directory in ["shims", "real"] {
        fs::create_dir(tree.path(directory)).unwrap();
    }
    let shim = tree.path("shims/tool");
    let count = tree.path("count");
    let (usr, real) = (tree.path("usr/bin"), tree.path("real"));
    let path = format!("{}:{}:/usr/bin:/bin", usr.display(), real.display());
    // It gives up by itself, so that a wrapper without a guard fails the test and does not run on.
    let limit = format!("echo >>{0}; [ $(wc -l <{0}) -lt 9 ] || exit 9", count.display());
    write_script(&shim, &format!("#!/bin/sh\n{limit}\nPATH='{path}' exec tool \"$@\"\n"));
    tree.hak(&["install", "program", shim.to_str().unwrap()]).assert().success();
    let run = || Command::new(usr.join("tool")).arg("a b").env_remove("LD_PRELOAD").output().unwrap();
    let alone = run();
    assert_eq!(alone.status.code(), Some(126), "{alone:?}");
    assert!(String::from_utf8_lossy(&alone.stderr).contains("starts it again"), "{alone:?}");
    fs::remove_file(&count).unwrap();
    write_script(&real.join("tool"), "#!/bin/sh\necho \"<$1> $LD_PRELOAD\"\n");
    let out = String::from_utf8(run().stdout).unwrap();
    assert!(out.starts_with("<a b> /") && out.contains("libhakmem"), "{out}");
}

/// The same of shims that are programs, in the same process and in one of their own (`fork`).
#[test]
fn a_shim_that_is_a_program_does_not_start_its_wrapper_for_ever() {
    let tree = Tree::new();
    for directory in ["shims", "real"] {
        fs::create_dir(tree.path(directory)).unwrap();
    }
    let (usr, real, count) = (tree.path("usr/bin"), tree.path("real"), tree.path("count"));
    let shim = tree.path("shims/tool");
    // It gives up by itself, so that a wrapper without a guard fails the test and does not run on.
    let text = format!(
        r#"#include <stdio.h>
           #include <stdlib.h>
           #include <sys/wait.h>
           #include <unistd.h>
           int main(int count, char **words) {{
             FILE *file = fopen("{}", "a");
             fputc('x', file);
             if (ftell(file) > 300) return 9;
             fclose(file);
             setenv("PATH", "{}:{}:/usr/bin:/bin", 1);
             if (FORKS && fork()) {{ int status; wait(&status); return WEXITSTATUS(status); }}
             execvp("tool", words);
             return 8;
           }}"#,
        count.display(),
        usr.display(),
        real.display()
    );
    for forks in ["-DFORKS=0", "-DFORKS=1"] {
        cc(&shim, &text, &[forks]);
        tree.hak(&["install", "program", shim.to_str().unwrap()]).assert().success();
        let run = || {
            fs::write(&count, "").unwrap();
            let mut command = Command::new(usr.join("tool"));
            // What a caller has in it need not be a wrapper's, nor a number.
            command.env("HAK_STARTED", "1:08:x").env("hak_self", "mine");
            command.arg("a b").env_remove("LD_PRELOAD").output().unwrap()
        };
        let alone = run();
        assert_eq!(alone.status.code(), Some(126), "{alone:?}");
        assert!(String::from_utf8_lossy(&alone.stderr).contains("starts it again"), "{alone:?}");
        write_script(&real.join("tool"), "#!/bin/sh\necho \"<$1> $LD_PRELOAD\"\n");
        let out = String::from_utf8(run().stdout).unwrap();
        assert!(out.starts_with("<a b> /") && out.matches("libhakmem").count() == 1, "{out}");
        fs::remove_file(real.join("tool")).unwrap();
        tree.hak(&["uninstall", "--all"]).assert().success();
    }
}

/// A package that is upgraded puts another file in the program's place, one that is removed none.
#[test]
fn a_program_that_is_upgraded_or_gone_is_what_the_wrapper_finds() {
    let tree = Tree::new();
    let program = tree.path("tool");
    fs::copy("/bin/true", &program).unwrap();
    tree.hak(&["install", "program", program.to_str().unwrap()]).assert().success();
    fs::remove_file(&program).unwrap();
    let wrapper = tree.path("usr/bin/tool");
    let gone = Command::new(&wrapper).output().unwrap();
    assert_eq!(gone.status.code(), Some(127), "{gone:?}");
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(said.contains("is not there any more") && said.contains(program.to_str().unwrap()), "{said}");
    write_script(&program, "#!/bin/sh\necho \"new $LD_PRELOAD\"\n");
    let new = Command::new(&wrapper).env_remove("LD_PRELOAD").output().unwrap();
    let said = String::from_utf8(new.stdout).unwrap();
    assert!(said.starts_with("new /") && said.contains("libhakmem"), "{said}");
    tree.hak(&["uninstall", "program-tool"]).assert().success();
}

#[test]
fn a_link_to_where_others_may_write_is_no_place_for_everybodys_library() {
    let Some(tree) = Tree::root() else { return };
    fs::create_dir_all(tree.path("open/in")).unwrap();
    fs::set_permissions(tree.path("open"), fs::Permissions::from_mode(0o777)).unwrap();
    symlink("/open/in", tree.path("place")).unwrap();
    let before = tree.snapshot();
    tree.hak_in_root(&["install", "system", "--prefix", "/place"])
        .assert()
        .code(2)
        .stderr(contains("/open").and(contains("others than root may change it")));
    assert_eq!(tree.snapshot(), before);
}

/// It starts itself again, which another program of its name is not.
#[test]
fn a_script_that_starts_itself_again_is_started_itself() {
    let tree = Tree::new();
    let (usr, real, other) = (tree.path("usr/bin"), tree.path("real"), tree.path("other"));
    let program = tree.write("real/prog", "#!/bin/sh\n[ \"$1\" ] || exec prog again\necho real $1\n", 0o755);
    tree.write("other/prog", "#!/bin/sh\necho other\n", 0o755);
    tree.hak(&["install", "program", program.to_str().unwrap()]).assert().success();
    let path = format!("{}:{}:{}:/usr/bin:/bin", usr.display(), real.display(), other.display());
    let out = Command::new(usr.join("prog")).env("PATH", path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "real again\n", "{out:?}");
}

#[test]
fn an_interpreter_that_gives_rights_is_refused_whoever_asks() {
    let tree = Tree::new();
    let shell = tree.path("shell");
    fs::copy("/bin/sh", &shell).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o4755)).unwrap();
    let script = tree.write("script", &format!("#!{}\n", shell.display()), 0o755);
    tree.hak(&["install", "program", script.to_str().unwrap()]).assert().code(126).stderr(contains("set-uid"));
}
