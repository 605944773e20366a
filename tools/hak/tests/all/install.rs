// SPDX-License-Identifier: MIT
//! `hak install` serves what it says, and `hak uninstall` leaves everything as it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::trees::Tree;
use crate::common::{BINARY, cc};
use predicates::prelude::*;
use predicates::str::contains;

/// How the path of a copy of the library begins, below the prefix.
const COPY: &str = concat!("lib/hakmem/libhakmem-", env!("CARGO_PKG_VERSION"), "-");

/// What a program that is started so has in LD_PRELOAD, and whether hakmem is mapped into it.
fn run(program: &Path, preload: Option<&str>) -> String {
    let mut command = Command::new(program);
    command.args([
        "-c",
        "for a; do echo \"<$a>\"; done; echo $LD_PRELOAD $HAKMEM_INT; cat /proc/$$/maps",
        "x",
        "a b",
        "*",
    ]);
    command.env_remove("LD_PRELOAD");
    preload.map(|value| command.env("LD_PRELOAD", value));
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn a_program_is_served_by_a_script_whatever_its_name() {
    let tree = Tree::new();
    let odd = "it's a\n$(name) \"of\" `many`";
    let program = tree.path(odd);
    fs::copy("/bin/sh", &program).unwrap();
    let before = tree.snapshot();
    let script = tree.path("bin of\nmine/script");
    let (from, to) = (program.to_str().unwrap(), script.to_str().unwrap());
    tree.hak(&["install", "program", "--env", "HAKMEM_INT=inline", from, "--as", to])
        .assert()
        .success()
        .stdout(contains("undo     hak uninstall"));
    let out = run(&script, None);
    assert!(out.starts_with("<a b>\n<*>\n"), "{out}");
    assert!(out.contains(&format!("usr/{COPY}")) && out.contains(".so inline\n"), "{out}");
    assert!(out.contains("r-xp") && out.matches("libhakmem").count() > 3, "it is mapped: {out}");
    // What the caller preloads goes first.
    let out = run(&script, Some("/caller/own.so"));
    assert!(out.contains("/caller/own.so:/"), "{out}");

    let listed = String::from_utf8(tree.hak(&["install", "list"]).output().unwrap().stdout).unwrap();
    let name = listed.split_whitespace().next().unwrap().to_owned();
    tree.hak(&["uninstall", &name, "--dry-run"])
        .assert()
        .success()
        .stdout(contains("removes").and(contains("nothing is")));
    assert!(script.exists());
    tree.hak(&["uninstall", &name]).assert().success();
    assert_eq!(tree.snapshot(), before);
    tree.hak(&["uninstall", &name]).assert().code(2).stderr(contains("is not installed"));
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn what_cannot_be_served_is_refused_and_nothing_changes() {
    let tree = Tree::new();
    let program = tree.path("set-uid");
    fs::copy("/bin/true", &program).unwrap();
    // Its owner's, too: somebody else will start it.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let fixed = tree.path("static");
    cc(&fixed, "int main(void) { return 0; }", &["-static"]);
    let before = tree.snapshot();
    for (name, reason) in [("set-uid", "set-uid"), ("static", "statically linked")] {
        let path = tree.path(name);
        tree.hak(&["install", "program", path.to_str().unwrap()]).assert().code(126).stderr(contains(reason));
    }
    tree.hak(&["install", "program", "no-such-program"]).assert().code(127);
    let prefix = tree.path("with a blank");
    tree.hak(&["install", "program", "true"]).assert().success();
    tree.hak(&["uninstall", "--all"]).assert().success();
    for (prefix, reason) in [(prefix, "choose another --prefix"), (tree.path("a/../b"), "with .. in it")] {
        let mut command = crate::common::hak();
        command
            .args(["install", "program", "true", "--prefix"])
            .arg(prefix)
            .arg("--library")
            .arg(crate::common::library());
        command.assert().code(2).stderr(contains(reason));
    }
    tree.hak(&["install", "program", "true", "--env", "LD_PRELOAD=x"])
        .assert()
        .code(2)
        .stderr(contains("hakmem's own"));
    for (setting, reason) in [
        ("HAKMEM_SOFT_LIMT=1G", "HAKMEM_SOFT_LIMT"),
        ("HAKMEM_SOFT_LIMIT=12", "HAKMEM_SOFT_LIMIT='12'"),
        ("HAKMEM_STATS=yes", "HAKMEM_STATS='yes'"),
        ("HAKMEM_STATS=", "HAKMEM_STATS=''"),
        ("HAKMEM_STATS_FILE=", "HAKMEM_STATS_FILE=''"),
    ] {
        tree.hak(&["install", "program", "true", "--env", setting]).assert().code(2).stderr(contains(reason));
    }
    // The user could not even say how to undo it.
    tree.hak(&["install", "user", "--env", "HAKMEM_HARD_LIMIT=1M"]).assert().code(126).stderr(contains("under hakmem"));
    for option in ["--dry-run", "--in-place", "--env=HAKMEM_STATS=1", "--library=/no/lib.so"] {
        tree.hak(&["install", "list", option]).assert().code(2).stderr(contains("no options but"));
    }
    tree.hak(&["install", "program", "true", "--dry-run"]).assert().success().stdout(contains("nothing is changed"));
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn reports_are_set_and_none_is_written_meanwhile() {
    let tree = Tree::new();
    let report = tree.path("report");
    let file = format!("HAKMEM_STATS_FILE={}", report.display());
    let install = ["install", "program", "true", "--env", "HAKMEM_STATS=classes", "--env", &file];
    tree.hak(&install).assert().success();
    assert!(!report.exists());
    let out = Command::new(tree.path("usr/bin/true")).output().unwrap();
    assert!(String::from_utf8_lossy(&out.stderr).starts_with("hakmem "), "{out:?}");
    assert!(report.exists());
}

/// A package has the library by several names, of which an upgrade keeps the one that programs are linked with.
#[test]
fn a_library_that_stays_where_it_is_may_be_upgraded() {
    let tree = Tree::new();
    let own = tree.path("lib/libhakmem.so.0.1.0");
    fs::create_dir(tree.path("lib")).unwrap();
    fs::copy(crate::common::library(), &own).unwrap();
    symlink("libhakmem.so.0.1.0", tree.path("lib/libhakmem.so.0")).unwrap();
    symlink("libhakmem.so.0", tree.path("lib/libhakmem.so")).unwrap();
    symlink("lib", tree.path("lib64")).unwrap();
    fs::create_dir(tree.path("else")).unwrap();
    symlink("../lib/libhakmem.so.0", tree.path("else/libhakmem.so")).unwrap();
    fs::copy(&own, tree.path("lib/mine.so")).unwrap();
    let install = |library: &str| {
        let mut command = crate::common::hak();
        command.args(["install", "program", "sh", "--in-place", "--prefix"]).arg(tree.path("usr"));
        command.arg("--library").arg(tree.path(library)).assert().success();
    };
    let expect = |name: &str| {
        let out = run(&tree.path("usr/bin/sh"), None);
        let path = tree.path(name);
        assert!(out.contains(&format!("{}\n", path.display())), "{out}");
        assert!(out.contains("r-xp") && out.contains(path.canonicalize().unwrap().to_str().unwrap()), "{out}");
    };
    for (given, named) in [
        ("lib/mine.so", "lib/mine.so"),
        ("lib/libhakmem.so.0.1.0", "lib/libhakmem.so.0"),
        ("else/libhakmem.so", "lib/libhakmem.so.0"),
        ("lib64/libhakmem.so", "lib/libhakmem.so.0"),
    ] {
        tree.hak(&["uninstall", "--all"]).assert().success();
        install(given);
        expect(named);
    }
    fs::rename(&own, tree.path("lib/libhakmem.so.0.1.1")).unwrap();
    fs::remove_file(tree.path("lib/libhakmem.so.0")).unwrap();
    symlink("libhakmem.so.0.1.1", tree.path("lib/libhakmem.so.0")).unwrap();
    expect("lib/libhakmem.so.0");
}

#[test]
fn files_of_others_are_not_touched() {
    let tree = Tree::new();
    tree.write("usr/bin/true", "mine", 0o700);
    symlink("nowhere", tree.path("usr/bin/sh")).unwrap();
    fs::create_dir(tree.path("usr/bin/cat")).unwrap();
    let before = tree.snapshot();
    for (program, code) in [("true", 2), ("sh", 2), ("cat", 2)] {
        let found = which::which(program).unwrap();
        tree.hak(&["install", "program", found.to_str().unwrap()]).assert().code(code);
        assert_eq!(tree.snapshot(), before, "{program}");
    }
    // What somebody has changed since stays, as does its record until it is gone.
    tree.hak(&["install", "program", "ls"]).assert().success();
    // The command that is named has to find it, so it has the place that was given.
    let again = tree.hak(&["install", "program", "ls"]).assert().code(2);
    again.stderr(contains("installed already: hak uninstall program-ls --prefix /"));
    let unknown = tree.hak(&["uninstall", "program-nosuch"]).assert().code(2);
    unknown.stderr(contains("is not installed below").and(contains("(hak install list --prefix /")));
    let script = tree.write("usr/bin/ls", "mine, too", 0o755);
    tree.hak(&["uninstall", "program-ls"]).assert().code(1).stdout(contains("was changed since"));
    assert_eq!(tree.read("usr/bin/ls"), "mine, too");
    let mut libraries = fs::read_dir(tree.path("usr/lib/hakmem")).unwrap().flatten();
    let library = libraries.find(|one| one.path().extension().is_some_and(|its| its == "so"));
    assert!(library.is_some(), "what is left may load it");
    fs::remove_file(script).unwrap();
    tree.hak(&["uninstall", "program-ls"]).assert().success();
    assert_eq!(tree.snapshot(), before);
}

/// All is taken back, and the exit code says that something is missing.
#[test]
fn nobody_has_to_read_what_is_taken_back() {
    let tree = Tree::new();
    let before = tree.snapshot();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (script, reason) in [("\"$0\" \"$@\" >&-", "Bad file descriptor"), ("\"$0\" \"$@\"", "No space left")] {
        for program in ["ls", "cat"] {
            tree.hak(&["install", "program", program]).assert().success();
        }
        let mut command = Command::new("sh");
        command.args(["-c", script, BINARY, "uninstall", "--all", "--prefix"]).arg(tree.path("usr"));
        let output = command.stdout(full()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.contains(reason), "{said}");
        assert_eq!(tree.snapshot(), before, "{said}");
    }
}

#[test]
fn installations_share_the_library() {
    let tree = Tree::new();
    let before = tree.snapshot();
    for program in ["ls", "cat"] {
        tree.hak(&["install", "program", program]).assert().success();
    }
    // Two of a name have two names.
    let other = tree.path("other/cat");
    tree.hak(&["install", "program", "cat", "--as", other.to_str().unwrap()])
        .assert()
        .success()
        .stdout(contains("program-cat-2"));
    tree.hak(&["uninstall", "program-ls", "program-cat-2"]).assert().success().stdout(contains("others use it"));
    assert_eq!(fs::read_to_string("/etc/passwd").unwrap().as_bytes(), {
        Command::new(tree.path("usr/bin/cat")).arg("/etc/passwd").output().unwrap().stdout
    });
    tree.hak(&["uninstall", "--all"]).assert().success();
    assert_eq!(tree.snapshot(), before, "the last one takes library and directories along");
}

#[test]
fn a_users_profile_gets_lines_and_loses_them() {
    let tree = Tree::new();
    let profile = tree.write(".profile", "export A=b", 0o640);
    let before = tree.snapshot();
    let install = ["install", "user", "--profile", profile.to_str().unwrap()];
    tree.hak(&install).assert().success().stdout(contains("adds to"));
    let script = format!(". {}; echo \"$A $LD_PRELOAD\"", profile.display());
    let out = Command::new("sh").args(["-c", &script]).env("LD_PRELOAD", "").output().unwrap();
    assert!(String::from_utf8(out.stdout).unwrap().starts_with("b /"), "both lines hold");
    // A shell in a shell reads it again, and what else is preloaded stays.
    for own in ["", "/own.so"] {
        let script = format!(". {0}; once=$LD_PRELOAD; . {0}; echo \"$once\"; echo \"$LD_PRELOAD\"", profile.display());
        let out = Command::new("sh").args(["-c", &script]).env("LD_PRELOAD", own).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], lines[1]);
        assert!(lines[0].starts_with(own) && lines[0].matches("libhakmem").count() == 1, "{text}");
    }
    let generator = Path::new("/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator");
    if generator.exists() {
        let mut command = Command::new(generator);
        command.env("XDG_CONFIG_HOME", tree.path(".config")).env("LD_PRELOAD", "/own.so");
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(out.contains("LD_PRELOAD=/own.so:/") && out.contains("libhakmem"), "{out}");
    }
    tree.hak(&["uninstall", "user"]).assert().success();
    assert_eq!(tree.snapshot(), before);

    // What the user adds below stays.
    tree.hak(&install).assert().success();
    let longer = tree.read(".profile") + "export C=d\n";
    fs::write(&profile, &longer).unwrap();
    tree.hak(&["uninstall", "user"]).assert().success().stdout(contains("takes out of"));
    assert_eq!(tree.read(".profile"), "export A=b\nexport C=d\n");
    // Dotfiles are often links into some repository.
    let link = tree.path(".zprofile");
    symlink(".profile", &link).unwrap();
    tree.hak(&["install", "user", "--profile", link.to_str().unwrap()])
        .assert()
        .code(2)
        .stderr(contains("it is a link"));
    fs::hard_link(&profile, tree.path("other name")).unwrap();
    tree.hak(&install).assert().code(2).stderr(contains("it has other names"));
}

#[test]
fn files_of_other_shells_than_sh_get_no_lines() {
    let tree = Tree::new();
    for (name, line) in [
        ("config.fish", "set -gx HAKMEM_INT inline; set -gx LD_PRELOAD (string join : $LD_PRELOAD '/"),
        (".cshrc", "setenv HAKMEM_INT inline; setenv LD_PRELOAD '/"),
        (".tcshrc", "setenv LD_PRELOAD '/"),
        (".login", "setenv LD_PRELOAD '/"),
    ] {
        let profile = tree.write(name, "", 0o640);
        let before = tree.snapshot();
        let install = ["install", "user", "--env", "HAKMEM_INT=inline", "--profile", profile.to_str().unwrap()];
        tree.hak(&install).assert().code(2).stderr(contains(line).and(contains("lines of sh's")));
        assert_eq!(tree.snapshot(), before, "{name}");
    }
}

#[test]
fn a_service_gets_a_drop_in() {
    let tree = Tree::new();
    let directory = ".config/systemd/user";
    tree.write(&format!("{directory}/one.service"), "[Service]\nExecStart=-@/bin/cat cat \\\n /dev/null\n", 0o644);
    tree.write(&format!("{directory}/many@.service"), "[Service]\nExecStart=/bin/cat %i\n", 0o644);
    for (name, text) in [
        ("preloaded", "Environment=A=b LD_PRELOAD=/x.so\nExecStart=/bin/cat"),
        ("unset", "UnsetEnvironment=LD_PRELOAD\nExecStart=/bin/cat"),
        ("hinted", "Environment=LD_PRELOAD=/x.so\nEnvironment=\nEnvironment=LD_PRELOAD_HINT=1\nExecStart=/bin/cat"),
        ("rooted", "RootDirectory=/srv\nExecStart=/bin/cat"),
        ("idle", "ExecStart="),
        ("gone", "ExecStart=/no/such"),
    ] {
        tree.write(&format!("{directory}/{name}.service"), &format!("[Service]\n{text}\n"), 0o644);
    }
    symlink("/dev/null", tree.path(&format!("{directory}/masked.service"))).unwrap();
    tree.write(&format!("{directory}/org.foo.bar.service"), "[Service]\nExecStart=/bin/cat\n", 0o644);
    tree.write(&format!("{directory}/theirs.service"), "[Service]\nExecStart=/bin/cat\n", 0o644);
    tree.write(&format!("{directory}/theirs.service.d/60-hakmem.conf"), "# mine\n", 0o644);
    let before = tree.snapshot();
    for (name, code, reason) in [
        ("preloaded", 126, "sets LD_PRELOAD already"),
        ("unset", 126, "takes LD_PRELOAD away"),
        ("rooted", 126, "in a root of its own"),
        ("idle", 126, "starts no program"),
        ("gone", 127, "no such program"),
        ("masked", 2, "is masked"),
        ("theirs", 2, "is there already"),
        ("none", 2, "there is no unit none.service in "),
        ("none", 2, ", nor in the other places where systemd looks"),
        ("one.socket", 2, "is not the name of a service"),
        ("../one", 2, "is not the name of a service"),
    ] {
        tree.hak(&["install", "service", "--user", name]).assert().code(code).stderr(contains(reason));
        assert_eq!(tree.snapshot(), before, "{name}");
    }
    let install = ["install", "service", "--user", "one", "--env", "HAKMEM_SOFT_LIMIT=2G"];
    tree.hak(&install).assert().success().stdout(contains("systemctl --user daemon-reload"));
    let text = tree.read(&format!("{directory}/one.service.d/60-hakmem.conf"));
    assert!(text.contains("[Service]\nEnvironment=HAKMEM_SOFT_LIMIT=2G\nEnvironment=LD_PRELOAD=/"), "{text}");
    tree.hak(&["install", "service", "--user", "many@a"]).assert().success();
    assert!(tree.path(&format!("{directory}/many@a.service.d/60-hakmem.conf")).exists());
    tree.write(&format!("{directory}/slash.service"), "[Service]\nRootDirectory=/\nExecStart=/bin/cat\n", 0o644);
    for name in ["many@9.6-main", "org.foo.bar", "slash", "hinted"] {
        tree.hak(&["install", "service", "--user", name]).assert().success();
        assert!(tree.path(&format!("{directory}/{name}.service.d/60-hakmem.conf")).exists());
    }
    tree.hak(&["uninstall", "--all"]).assert().success();
    fs::remove_file(tree.path(&format!("{directory}/slash.service"))).unwrap();
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn a_service_of_the_system_gets_what_it_may_see() {
    let Some(tree) = Tree::root() else { return };
    tree.write("usr/lib/systemd/system/one.service", "[Service]\nUser=nobody\nExecStart=/bin/cat\n", 0o644);
    let before = tree.snapshot();
    let home = ["install", "service", "one", "--prefix", "/home/me"];
    tree.hak_in_root(&home).assert().code(126).stderr(contains("services may not see what is in /home"));
    fs::create_dir(tree.path("opt")).unwrap();
    fs::set_permissions(tree.path("opt"), fs::Permissions::from_mode(0o700)).unwrap();
    let hidden = ["install", "service", "one", "--prefix", "/opt"];
    tree.hak_in_root(&hidden).assert().code(2).stderr(contains("not all users may read"));
    fs::remove_dir(tree.path("opt")).unwrap();
    assert_eq!(tree.snapshot(), before);
    tree.hak_in_root(&["install", "service", "one"]).assert().success().stdout(contains("no systemd-analyze here"));
    let text = tree.read("etc/systemd/system/one.service.d/60-hakmem.conf");
    let library = text.trim_end().rsplit('=').next().unwrap().to_owned();
    assert!(tree.path(&library[1..]).exists(), "{text}");
    tree.hak_in_root(&["uninstall", "service-one"]).assert().success();
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn a_system_is_tried_first() {
    let Some(tree) = Tree::root() else {
        crate::common::hak()
            .args(["install", "system", "--root", "/", "--library"])
            .arg(crate::common::library())
            .assert()
            .code(2);
        return;
    };
    tree.write("etc/ld.so.preload", "# none yet", 0o600);
    let before = tree.snapshot();
    tree.hak_in_root(&["install", "system"]).assert().success().stdout(contains("3 programs of the system"));
    let preload = tree.read("etc/ld.so.preload");
    assert!(preload.starts_with(&format!("# none yet\n/usr/local/{COPY}")), "{preload}");
    tree.hak_in_root(&["install", "system"]).assert().code(2).stderr(contains("names hakmem already"));
    // Somebody's line after it, and their own way of naming it.
    fs::write(tree.path("etc/ld.so.preload"), format!("{preload}/lib/theirs.so\n")).unwrap();
    tree.hak_in_root(&["uninstall", "system"]).assert().success().stdout(contains("takes out of"));
    assert_eq!(tree.read("etc/ld.so.preload"), "# none yet\n/lib/theirs.so\n");
    fs::write(tree.path("etc/ld.so.preload"), "# none yet").unwrap();
    assert_eq!(tree.snapshot(), before);
    tree.hak_in_root(&["install", "system"]).assert().success();
    fs::write(tree.path("etc/ld.so.preload"), preload.replace("/usr/local", "/usr/local/.")).unwrap();
    tree.hak_in_root(&["uninstall", "system"]).assert().code(1).stdout(contains("still names hakmem"));
    fs::write(tree.path("etc/ld.so.preload"), "# none yet").unwrap();
    tree.hak_in_root(&["uninstall", "system"]).assert().success();
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn an_image_without_a_shell_gets_no_script() {
    let Some(tree) = Tree::root() else { return };
    fs::remove_file(tree.path("bin/sh")).unwrap();
    let before = tree.snapshot();
    let refused = contains("/usr/local/bin/ls: its interpreter cannot be run: no such program: /bin/sh");
    tree.hak_in_root(&["install", "program", "/bin/ls"]).assert().code(126).stderr(refused);
    assert_eq!(tree.snapshot(), before);
}

/// A shell makes a file of that name, and the next one would find it.
#[test]
fn an_image_without_dev_null_gets_none() {
    let Some(tree) = Tree::root() else { return };
    fs::create_dir(tree.path("dev")).unwrap();
    tree.write("bin/ls", "#!/bin/sh\n[ ! -e /dev/null ] || echo there\necho >/dev/null\n", 0o755);
    let before = tree.snapshot();
    tree.hak_in_root(&["install", "system"]).assert().success();
    assert!(!tree.path("dev/null").exists());
    tree.hak_in_root(&["uninstall", "system"]).assert().success();
    assert_eq!(tree.snapshot(), before);
    // What is there is left as it is.
    tree.write("dev/null", "theirs", 0o444);
    tree.write("bin/ls", "#!/bin/sh\ncat /dev/null\n", 0o755);
    tree.hak_in_root(&["install", "system"]).assert().success();
    assert_eq!(tree.read("dev/null"), "theirs");
}

#[test]
fn a_system_that_would_not_bear_it_stays_as_it_is() {
    let Some(tree) = Tree::root() else { return };
    let ls = fs::read(tree.path("bin/ls")).unwrap();
    for (script, reason) in [
        ("[ -z \"$LD_PRELOAD\" ] || exit 3", "exit code 3"),
        ("[ -z \"$LD_PRELOAD\" ] || echo more", "something else"),
        ("[ -z \"$LD_PRELOAD\" ] || kill -SEGV $$", "SIGSEGV"),
        // Only when the file is there, which is then taken back.
        ("[ ! -e /etc/ld.so.preload ] || echo broken >&2", "broken"),
    ] {
        tree.write("bin/ls", &format!("#!/bin/sh\n{script}\n"), 0o755);
        let before = tree.snapshot();
        let refused = contains(reason).and(contains("nothing stays changed"));
        tree.hak_in_root(&["install", "system"]).assert().code(126).stderr(refused);
        assert_eq!(tree.snapshot(), before, "{script}");
    }
    fs::write(tree.path("bin/ls"), ls).unwrap();
    symlink("other", tree.path("etc/ld.so.preload")).unwrap();
    tree.hak_in_root(&["install", "system"]).assert().code(2).stderr(contains("it is a link"));
    fs::remove_file(tree.path("etc/ld.so.preload")).unwrap();
    // A directory on the way that others may write to.
    fs::create_dir_all(tree.path("usr/local")).unwrap();
    fs::set_permissions(tree.path("usr/local"), fs::Permissions::from_mode(0o777)).unwrap();
    tree.hak_in_root(&["install", "system"]).assert().code(2).stderr(contains("others than root may change it"));
    fs::set_permissions(tree.path("usr/local"), fs::Permissions::from_mode(0o755)).unwrap();
    tree.write("lib/ld-linux.so.2", "", 0o755);
    tree.hak_in_root(&["install", "system"]).assert().code(126).stderr(contains("32-bit programs"));
    fs::remove_file(tree.path("bin/cat")).unwrap();
    fs::remove_file(tree.path("lib/ld-linux.so.2")).unwrap();
    tree.hak_in_root(&["install", "system"]).assert().code(126).stderr(contains("there is no cat"));
}
