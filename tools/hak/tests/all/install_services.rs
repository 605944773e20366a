// SPDX-License-Identifier: MIT
//! `hak install service` of units whose other files and settings would take from it what it adds, and of such as look
//! strange and are none the less served.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::trees::Tree;
use predicates::prelude::*;
use predicates::str::contains;

const UNITS: &str = ".config/systemd/user";

fn unit(tree: &Tree, name: &str, text: &str) {
    tree.write(&format!("{UNITS}/{name}"), &format!("[Service]\n{text}\n"), 0o644);
}

/// Each is refused for its reason, and nothing changes.
fn refused(tree: &Tree, name: &str, code: i32, reason: &str) {
    let before = tree.snapshot();
    tree.hak(&["install", "service", "--user", name]).assert().code(code).stderr(contains(reason));
    assert_eq!(tree.snapshot(), before, "{name}");
}

/// It is served, and taken back to the byte.
fn served(tree: &Tree, name: &str, note: &str) {
    let before = tree.snapshot();
    tree.hak(&["install", "service", "--user", name]).assert().success().stdout(contains(note));
    tree.hak(&["uninstall", "--all"]).assert().success();
    assert_eq!(tree.snapshot(), before, "{name}");
}

#[test]
fn files_of_variables_go_before_a_drop_in() {
    let tree = Tree::new();
    let own = tree.write("own.env", "# LD_PRELOAD=/no.so\nA=b\n LD_PRELOAD=/x.so\n", 0o644);
    let other = tree.write("other.env", "A=LD_PRELOAD=b\n", 0o644);
    let (own, other) = (own.display(), other.display());
    for (name, text) in [
        ("named", format!("EnvironmentFile=-{own}")),
        ("many", format!("EnvironmentFile={}/*.env", tree.path("").display())),
        ("instance@a", format!("EnvironmentFile={own}")),
        ("filled@own", format!("EnvironmentFile={}/%i.env", tree.path("").display())),
    ] {
        let file = name.split_once('@').map_or(name.to_owned(), |(before, _)| format!("{before}@"));
        unit(&tree, &format!("{file}.service"), &(text + "\nExecStart=/bin/cat"));
        refused(&tree, name, 126, "own.env sets LD_PRELOAD");
    }
    unit(&tree, "none.service", &format!("EnvironmentFile={own}\nEnvironmentFile=\nExecStart=/bin/cat"));
    served(&tree, "none", "daemon-reload");
    unit(&tree, "other.service", &format!("EnvironmentFile={other}\nExecStart=/bin/cat"));
    served(&tree, "other", "daemon-reload");
    unit(&tree, "later.service", "EnvironmentFile=-/no/such\nExecStart=/bin/cat");
    served(&tree, "later", "/no/such is not there");
    // A setting of hakmem's that would be lost.
    let limit = tree.write("limit.env", "HAKMEM_SOFT_LIMIT=1G\n", 0o644);
    unit(&tree, "limit.service", &format!("EnvironmentFile={}\nExecStart=/bin/cat", limit.display()));
    let install = ["install", "service", "--user", "limit", "--env", "HAKMEM_SOFT_LIMIT=2G"];
    tree.hak(&install).assert().code(126).stderr(contains("sets HAKMEM_SOFT_LIMIT"));
    served(&tree, "limit", "daemon-reload");
}

#[test]
fn a_library_that_the_service_does_not_see_is_noticed() {
    let tree = Tree::new();
    let here = tree.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');
    let link = tree.path("link");
    symlink(here, &link).unwrap();
    for (name, text) in [
        ("inaccessible", format!("InaccessiblePaths=/nowhere \"-{here}\"")),
        ("linked", format!("InaccessiblePaths={}/usr", link.display())),
        ("closed", format!("InaccessiblePaths={here}\nBindPaths={here}/usr")),
        ("empty", format!("TemporaryFileSystem={here}:ro")),
        ("covered", format!("BindReadOnlyPaths=/opt:{here}/usr:rbind")),
        ("temporary", "PrivateTmp=yes".to_owned()),
        ("dynamic", "DynamicUser=1".to_owned()),
    ] {
        unit(&tree, &format!("{name}.service"), &format!("{text}\nExecStart=/bin/cat"));
        refused(&tree, name, 126, "it does not see");
    }
    unit(&tree, "no-exec.service", "NoExecPaths=/\nExecPaths=/usr /bin\nExecStart=/bin/cat");
    refused(&tree, "no-exec", 126, "may not run what is in");
    for (name, text) in [
        ("taken-back", format!("InaccessiblePaths={here}\nInaccessiblePaths=")),
        ("beside", format!("InaccessiblePaths={here}/us {here}/usr/lib/hakmem.d")),
        ("within", format!("TemporaryFileSystem=/\nBindReadOnlyPaths=/usr {here}/usr")),
        ("exec", format!("NoExecPaths=/\nExecPaths={here}/usr")),
        ("read-only", "ProtectHome=read-only\nPrivateTmp=no\nProtectSystem=strict".to_owned()),
    ] {
        unit(&tree, &format!("{name}.service"), &format!("{text}\nExecStart=/bin/cat"));
        served(&tree, name, "daemon-reload");
    }
    unit(&tree, "percent.service", "InaccessiblePaths=%h\nExecStart=/bin/cat");
    served(&tree, "percent", "is for systemd alone to know");

    let Some(tree) = Tree::root() else { return };
    tree.write("usr/lib/systemd/system/one.service", "[Service]\nProtectHome=yes\nExecStart=/bin/cat\n", 0o644);
    fs::create_dir_all(tree.path("home")).unwrap();
    symlink("home", tree.path("data")).unwrap();
    let home = ["install", "service", "one", "--prefix", "/data/hakmem"];
    tree.hak_in_root(&home).assert().code(126).stderr(contains("it does not see /home"));
}

#[test]
fn env_is_looked_through() {
    let tree = Tree::new();
    for (name, start, code, reason) in [
        ("cleared", "/usr/bin/env -i cat", 126, "env -i in ExecStart= takes LD_PRELOAD away"),
        ("unset", "/usr/bin/env \"-uLD_PRELOAD\" cat", 126, "takes LD_PRELOAD away"),
        ("replaced", "/usr/bin/env LD_PRELOAD=/x.so cat", 126, "takes LD_PRELOAD away"),
        ("gone", "/usr/bin/env A=b no-such", 127, "no such program"),
    ] {
        unit(&tree, &format!("{name}.service"), &format!("ExecStart={start}"));
        refused(&tree, name, code, reason);
    }
    unit(&tree, "handed.service", "ExecStart=/usr/bin/env A=b -u C cat -i");
    served(&tree, "handed", "daemon-reload");
    // The same where a script's first line has it.
    let script = tree.write("script", "#!/usr/bin/env -S -i sh\n", 0o755);
    unit(&tree, "script.service", &format!("ExecStart={}", script.display()));
    refused(&tree, "script", 126, "takes LD_PRELOAD away");
}

/// Debian's script for PostgreSQL, with the variables of a file of its own alone.
#[test]
fn a_script_that_gives_the_server_other_variables_is_refused() {
    let tree = Tree::new();
    let script = tree.write("pg_ctlcluster", "#!/bin/sh\n", 0o755);
    unit(&tree, "db@.service", &format!("ExecStart=-{} --skip-systemctl-redirect %i start", script.display()));
    refused(&tree, "db@15-main", 126, "/etc/postgresql/VERSION/CLUSTER/environment");
}

#[test]
fn drop_ins_of_other_names_are_read() {
    let tree = Tree::new();
    let preload = "Environment=LD_PRELOAD=/x.so";
    for (name, place) in [
        ("a-b-c", "a-b-.service.d"),
        ("a-b-d", "a-.service.d"),
        ("i-j@k", "i-@.service.d"),
        ("m-n@o", "m-.service.d"),
        ("own", "also.service.d"),
        ("also", "also.service.d"),
    ] {
        let file = name.split_once('@').map_or(name.to_owned(), |(before, _)| format!("{before}@"));
        if name == "also" {
            symlink("own.service", tree.path(&format!("{UNITS}/also.service"))).unwrap();
        } else {
            unit(&tree, &format!("{file}.service"), "ExecStart=/bin/cat");
        }
        if name == "own" {
            continue;
        }
        unit(&tree, &format!("{place}/one.conf"), preload);
        refused(&tree, name, 126, "sets LD_PRELOAD already");
        if name == "also" {
            refused(&tree, "own", 126, "sets LD_PRELOAD already");
        }
        fs::remove_dir_all(tree.path(&format!("{UNITS}/{place}"))).unwrap();
    }
    // An alias is installed for by the unit's own name, once.
    tree.hak(&["install", "service", "--user", "also"]).assert().success().stdout(contains("own.service.d"));
    tree.hak(&["install", "service", "--user", "own"]).assert().code(2).stderr(contains("installed already"));
    tree.hak(&["uninstall", "--all"]).assert().success();

    unit(&tree, "own.service.d/10-one.conf", preload);
    unit(&tree, "service.d/10-one.conf", "");
    refused(&tree, "own", 126, "sets LD_PRELOAD already");
    // What goes before has the same name, and nothing in it.
    fs::remove_file(tree.path(&format!("{UNITS}/own.service.d/10-one.conf"))).unwrap();
    unit(&tree, "own.service.d/10-one.conf", "");
    unit(&tree, "service.d/10-one.conf", preload);
    served(&tree, "own", "daemon-reload");
    unit(&tree, "own.service.d/70-late.conf", "Environment=");
    refused(&tree, "own", 126, "forgets all variables");
    unit(&tree, "own.service.d/70-late.conf", "Environment=HAKMEM_INT=off");
    let install = ["install", "service", "--user", "own", "--env", "HAKMEM_INT=inline"];
    tree.hak(&install).assert().code(126).stderr(contains("sets HAKMEM_INT"));
    unit(&tree, "service.d/60-hakmem.conf", "");
    refused(&tree, "own", 126, "only one of them would be read");
}

#[test]
fn what_systemd_takes_is_taken() {
    let tree = Tree::new();
    for (name, text, note) in [
        ("quoted", "ExecStart=\"-/bin/\\x63at\" 'a b' \\101 a\\qb", "daemon-reload"),
        ("bytes", "ExecStart=/bin/cat \\xfc", "daemon-reload"),
        ("searched", "ExecStart=cat", "daemon-reload"),
        ("absent", "Type=oneshot\nExecStart=-/no/such\nExecStart=/bin/cat", "no such program: /no/such"),
        ("two", "Type=oneshot\nExecStart=/bin/cat ; -/no/such", "no such program: /no/such"),
        ("named", "ExecStart=@/bin/cat - a", "daemon-reload"),
        ("unknown", "ExecStart=%h/cat", "is not looked at"),
    ] {
        unit(&tree, &format!("{name}.service"), text);
        served(&tree, name, note);
    }
    let latin = tree.path(&format!("{UNITS}/latin.service"));
    fs::write(&latin, b"# gr\xFC\xDFe\n[Service]\nExecStart=/bin/cat\n").unwrap();
    served(&tree, "latin", "daemon-reload");
    fs::write(&latin, b"[Service]\nExecStart=/bin/cat gr\xFC\xDFe\n").unwrap();
    refused(&tree, "latin", 2, "systemd does not read what is not UTF-8");
    unit(&tree, "none.service", "ExecStart=-/no/such");
    refused(&tree, "none", 127, "none of its programs is there");
    unit(&tree, "open.service", "ExecStart=/bin/cat 'a");
    let open = contains("a quote that is not closed").and(contains("open.service"));
    tree.hak(&["install", "service", "--user", "open"]).assert().code(126).stderr(open);
    unit(&tree, "empty.service", "");
    fs::write(tree.path(&format!("{UNITS}/empty.service")), "").unwrap();
    refused(&tree, "empty", 2, "is masked");
}

#[test]
fn what_would_be_lost_without_a_word_is_said() {
    let tree = Tree::new();
    // A continued line of a file with the other ends of lines.
    unit(&tree, "ends.service", "ExecStart=/usr/bin/env \\\r\n  -i cat\r");
    refused(&tree, "ends", 126, "takes LD_PRELOAD away");
    let file = tree.write("own.env", "A=C:\\\\\nLD_PRELOAD=/x.so\n", 0o644);
    unit(&tree, "file.service", &format!("EnvironmentFile={}\nExecStart=/bin/cat", file.display()));
    refused(&tree, "file", 126, "own.env sets LD_PRELOAD");
    symlink("/usr/bin/env", tree.path("e")).unwrap();
    unit(&tree, "link.service", &format!("ExecStart={} -i cat", tree.path("e").display()));
    refused(&tree, "link", 126, "takes LD_PRELOAD away");
    unit(&tree, "variable.service", "Environment=UN=LD_PRELOAD\nExecStart=/usr/bin/env -u ${UN} cat");
    served(&tree, "variable", "what a $ stands for");
    unit(&tree, "path.service", "Environment=PATH=/x:/usr/bin\nExecStart=/usr/bin/env cat");
    served(&tree, "path", "env looks for cat along the service's PATH");
    let script = tree.write("script", "#!/usr/bin/env sh\n", 0o755);
    unit(&tree, "script.service", &format!("ExecStart={}", script.display()));
    served(&tree, "script", "looks for its interpreter along the service's PATH");

    unit(&tree, "a@.service", "ExecStart=/bin/cat");
    for name in ["a@%h", "a@x;y", "a@\u{fc}"] {
        refused(&tree, name, 2, "is not the name of a service");
    }
    served(&tree, "a@", "restart a@INSTANCE.service");
    if which::which("systemd-analyze").is_ok() {
        unit(&tree, "twice.service", "ExecStart=/bin/cat\nExecStart=/bin/cat");
        refused(&tree, "twice", 126, "systemd refuses the unit");
        unit(&tree, "twice.service.d/10-one.conf", "Type=oneshot");
        served(&tree, "twice", "daemon-reload");
    }

    unit(&tree, "one.service", "ExecStart=/bin/cat");
    let session = tree.write(".config/environment.d/90-x.conf", "LD_PRELOAD=/x.so\n", 0o644);
    served(&tree, "one", "90-x.conf sets LD_PRELOAD for all services");
    tree.hak(&["install", "user"]).assert().code(126).stderr(contains("90-x.conf is read later"));
    fs::write(session, "LD_PRELOAD=/x.so:${LD_PRELOAD}\n").unwrap();
    tree.hak(&["install", "user"]).assert().success();
    tree.hak(&["uninstall", "user"]).assert().success();
    tree.write(".config/systemd/user.conf", "[Manager]\nDefaultEnvironment=A=b LD_PRELOAD=/x.so\n", 0o644);
    served(&tree, "one", "user.conf sets LD_PRELOAD for all services");
}

#[test]
fn what_a_killed_one_has_left_the_next_one_removes() {
    let tree = Tree::new();
    unit(&tree, "one.service", "ExecStart=/bin/cat");
    let temporary = tree.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let path = format!("{}:{}", tree.path("bin").display(), std::env::var("PATH").unwrap());
    let install = |systemd: &str| {
        tree.write("bin/systemd-analyze", &format!("#!/bin/sh\n{systemd}\n"), 0o755);
        let mut command = tree.hak(&["install", "service", "--user", "one"]);
        command.env("TMPDIR", &temporary).env("PATH", &path).assert()
    };
    let left = || fs::read_dir(&temporary).unwrap().count();
    install("kill -KILL $PPID").failure();
    assert_eq!(left(), 1);
    install("true").success();
    assert_eq!(left(), 0);
}

#[test]
fn a_filter_that_would_end_the_service_is_refused() {
    if which::which("systemd-analyze").is_err() {
        return;
    }
    let tree = Tree::new();
    let narrow = "SystemCallFilter=@basic-io @file-system @process @signal @network-io";
    for (name, text, line) in [
        ("narrow", narrow, "add a line  SystemCallFilter=madvise sysinfo  to"),
        ("denied", "SystemCallFilter=~@memlock madvise", "add a line  SystemCallFilter=madvise  to"),
        ("killed", "SystemCallFilter=~sysinfo:kill\nSystemCallErrorNumber=EPERM", "SystemCallFilter=sysinfo  to"),
        ("taken", "SystemCallFilter=@system-service\nSystemCallFilter=~@process", "SystemCallFilter=prctl  to"),
    ] {
        unit(&tree, &format!("{name}.service"), &format!("{text}\nExecStart=/bin/cat"));
        refused(&tree, name, 126, line);
        refused(&tree, name, 126, &format!("systemctl --user edit {name}.service"));
        // What it says helps.
        let added = line.rsplit_once("SystemCallFilter=").unwrap().1.trim_end_matches("  to");
        unit(&tree, &format!("{name}.service.d/override.conf"), &format!("SystemCallFilter={added}"));
        served(&tree, name, "daemon-reload");
    }
    for (name, text, note) in [
        ("wide", "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources", "daemon-reload"),
        ("reset", "SystemCallFilter=@signal\nSystemCallFilter=", "daemon-reload"),
        ("other", "SystemCallFilter=~@memlock @mount mremap mincore", "daemon-reload"),
        ("answered", &format!("{narrow}\nSystemCallErrorNumber=EPERM"), "frees stays resident"),
    ] {
        unit(&tree, &format!("{name}.service"), &format!("{text}\nExecStart=/bin/cat"));
        served(&tree, name, note);
    }
    // A drop-in's may be the first.
    unit(&tree, "bare.service", "ExecStart=/bin/cat");
    served(&tree, "bare", "daemon-reload");
    unit(&tree, "bare.service.d/10-narrow.conf", narrow);
    refused(&tree, "bare", 126, "SystemCallFilter=madvise sysinfo");
}
