// SPDX-License-Identifier: MIT
//! Judges what the probe (helpers/probe.c) wrote: did this allocator serve the program?

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::allocators::{Allocator, SHIPPED};

/// A heap of the C library that is larger than this beside another allocator was really used. What
/// is smaller can be a few blocks from before the libraries were ready.
const LIBC_HEAP_TOLERATED: u64 = 256 << 10;

/// Why a run counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The object that answered malloc, free, calloc and realloc.
    pub answered_by: String,
    /// How that is known, for people.
    pub evidence: String,
}

type Line<'a> = HashMap<&'a str, &'a str>;

/// `refills` is hakmem's own count of batches handed out, if it told one.
pub fn judge(text: &str, allocator: &Allocator, refills: Option<u64>) -> Result<Proof, String> {
    let lines: Vec<Line> = text.lines().map(parse).collect();
    if allocator.name == SHIPPED {
        return Ok(of_program_itself(&lines));
    }
    let Some(first) = lines.first() else {
        return Err("the program did not load what was preloaded".into());
    };
    for line in &lines {
        check_line(line, allocator)?;
    }
    let processes: BTreeSet<&str> = lines.iter().filter_map(|line| line.get("pid").copied()).collect();
    let ended: Vec<&Line> = lines.iter().filter(|line| line["when"] == "end").collect();
    let number = |line: &Line, key: &str| line.get(key).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let libc_heap = lines.iter().map(|line| number(line, "libc_heap")).max().unwrap_or(0);
    let bound = ended.iter().map(|line| number(line, "bound")).max().unwrap_or(0);

    let library = allocator.library.as_deref().filter(|library| !is_libc(library));
    let used = match (library, refills) {
        (None, _) if libc_heap > 0 => format!("its heap grew to {} KiB", libc_heap / 1024),
        (None, _) => "it handed out no block".into(),
        (Some(_), Some(0)) if !ended.is_empty() => {
            return Err("it was loaded, but handed out no block by its own count".into());
        }
        (Some(_), Some(refills)) => format!("by its own count {refills} refills; glibc's heap {libc_heap} B"),
        (Some(_), None) if bound > 0 => format!("{bound} call sites lead to it; glibc's heap {libc_heap} B"),
        (Some(_), None) => "the program ended without its exit handlers".into(),
    };
    Ok(Proof {
        answered_by: first["malloc"].to_owned(),
        evidence: format!("answers in {} process(es); {used}{}", processes.len(), operator_new(first)),
    })
}

/// Whoever serves it, in each of its processes.
fn of_program_itself(lines: &[Line]) -> Proof {
    if lines.is_empty() {
        let evidence = "it loads nothing that is preloaded, so the probe cannot look";
        return Proof { answered_by: "the program itself".into(), evidence: evidence.into() };
    }
    let objects: BTreeSet<&str> = lines.iter().map(|line| object(line, "malloc")).collect();
    let processes: BTreeSet<&str> = lines.iter().filter_map(|line| line.get("pid").copied()).collect();
    Proof {
        answered_by: objects.into_iter().collect::<Vec<_>>().join(", "),
        evidence: format!("answers in {} process(es), without anything preloaded", processes.len()),
    }
}

/// The object that serves a process of the program in place of the C library, if there is one.
pub fn brought(text: &str) -> Option<PathBuf> {
    let mut objects = text.lines().map(|line| PathBuf::from(object(&parse(line), "malloc")));
    objects.find(|object| object.is_absolute() && !is_libc(object))
}

fn parse(line: &str) -> Line<'_> {
    let mut words = line.split('\t');
    let mut fields = Line::from([("when", words.next().unwrap_or("")), ("malloc", "none")]);
    fields.extend(words.filter_map(|word| word.split_once('=')));
    fields
}

/// The object that answers a function. An executable is named as it was called, if at all; its file is known.
fn object<'a>(line: &Line<'a>, function: &str) -> &'a str {
    match line.get(function).copied().unwrap_or("none") {
        named @ ("none" | "?") => named,
        named if named.starts_with('/') => named,
        named => line.get("exe").copied().unwrap_or(named),
    }
}

fn check_line(line: &Line, allocator: &Allocator) -> Result<(), String> {
    let program = line.get("exe").copied().unwrap_or("a program");
    for function in ["malloc", "free", "calloc", "realloc"] {
        let object = object(line, function);
        if object == program {
            return Err(format!("{program} brings its own {function}, which goes before a preloaded one"));
        }
        if !is_of(object, allocator) {
            return Err(format!("{function} of {program} is answered by {object}"));
        }
    }
    let foreign = line.get("foreign").copied().unwrap_or("");
    if let Some(first) = foreign.split(';').find(|call| !call.is_empty()) {
        return Err(format!("in {program} a call leads elsewhere (caller:function:object): {first}"));
    }
    let libc_heap: u64 = line.get("libc_heap").and_then(|text| text.parse().ok()).unwrap_or(0);
    if allocator.library.as_deref().is_some_and(|library| !is_libc(library)) && libc_heap > LIBC_HEAP_TOLERATED {
        let kib = libc_heap / 1024;
        return Err(format!("{program} also used the C library's heap, {kib} KiB of it"));
    }
    Ok(())
}

/// Worth a word where another object answers it: the C++ library's own calls malloc.
fn operator_new(line: &Line) -> String {
    match line.get("new") {
        Some(&object) if object != "none" && object != line["malloc"] => format!("; operator new is {object}'s"),
        _ => String::new(),
    }
}

/// Whether an object, as the dynamic linker names it, is the allocator.
fn is_of(object: &str, allocator: &Allocator) -> bool {
    let path = Path::new(object);
    match &allocator.library {
        Some(library) => match (path.canonicalize(), library.canonicalize()) {
            (Ok(object), Ok(library)) => object == library,
            _ => false,
        },
        None => is_libc(path),
    }
}

fn is_libc(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == "libc.so.6" || name.starts_with("libc-2.")
}

/// Who is to answer a workload.
pub enum Server<'a> {
    Allocator(&'a Allocator),
    /// The workload itself, in which hakmem is.
    Program(PathBuf),
}

/// The same for a `malloc_from=` that a workload printed: a path, or a file name alone.
pub fn said_by_workload(said: &str, server: &Server) -> Result<Proof, String> {
    let allocator = match server {
        Server::Allocator(allocator) => allocator,
        Server::Program(program) if program.canonicalize().is_ok_and(|program| program == Path::new(said)) => {
            let evidence = "the workload asks hakmem in it in every run whether a block is its own".into();
            return Ok(Proof { answered_by: said.to_owned(), evidence });
        }
        Server::Program(_) => return Err(format!("it was served by {said}")),
    };
    let right = if said.contains('/') {
        is_of(said, allocator)
    } else {
        match &allocator.library {
            None => is_libc(Path::new(said)),
            Some(library) => {
                let real = library.canonicalize().unwrap_or_default();
                [library.as_path(), &real].iter().any(|path| path.file_name().is_some_and(|name| name == said))
            }
        }
    };
    if !right {
        return Err(format!("it was served by {said}"));
    }
    Ok(Proof { answered_by: said.to_owned(), evidence: "the workload asks the dynamic linker in every run".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glibc() -> Allocator {
        Allocator {
            name: "glibc".into(),
            version: "2".into(),
            library: None,
            source: String::new(),
            environment: Default::default(),
            compiler: None,
            fingerprint: None,
        }
    }

    fn line(when: &str, malloc: &str, rest: &str) -> String {
        let libc = "/lib/libc.so.6";
        format!(
            "{when}\tpid=7\texe=/bin/x\tmalloc={malloc}\tfree={libc}\tcalloc={libc}\trealloc={libc}\tnew=none\t{rest}\n"
        )
    }

    #[test]
    fn nothing_written_is_no_proof() {
        assert!(judge("", &glibc(), None).unwrap_err().contains("did not load"));
    }

    #[test]
    fn one_function_from_elsewhere_is_no_proof() {
        let text = line("start", "/lib/libother.so", "foreign=\tbound=3\tlibc_heap=9");
        assert!(judge(&text, &glibc(), None).unwrap_err().contains("malloc of /bin/x is answered by /lib/libother.so"));
    }

    #[test]
    fn a_call_that_leads_elsewhere_is_no_proof() {
        let text = line("end", "/lib/libc.so.6", "foreign=program:free:/lib/libother.so;\tbound=3\tlibc_heap=9");
        assert!(judge(&text, &glibc(), None).unwrap_err().contains("program:free:/lib/libother.so"));
    }

    #[test]
    fn a_program_that_brings_its_own_is_proven_as_it_is() {
        let text = line("start", "/lib/libc.so.6", "foreign=") + &line("start", "/lib/libjemalloc.so.2", "foreign=");
        assert_eq!(brought(&text), Some("/lib/libjemalloc.so.2".into()));
        assert_eq!(brought(&line("start", "/lib/libc.so.6", "foreign=")), None);
        assert!(judge(&text, &glibc(), None).is_err());
        let shipped = Allocator { name: SHIPPED.into(), ..glibc() };
        assert_eq!(judge(&text, &shipped, None).unwrap().answered_by, "/lib/libc.so.6, /lib/libjemalloc.so.2");
    }

    /// The dynamic linker names an executable as it was called.
    #[test]
    fn what_an_executable_brings_is_known_however_it_was_called() {
        for called in ["./x", "x", "/bin/x"] {
            let text = line("start", called, "foreign=");
            assert_eq!(brought(&text), Some("/bin/x".into()), "{called}");
            assert_eq!(
                judge(&text, &glibc(), None).unwrap_err(),
                "/bin/x brings its own malloc, which goes before a preloaded one"
            );
        }
        assert_eq!(brought(&line("start", "none", "foreign=")), None);
        let shipped = Allocator { name: SHIPPED.into(), ..glibc() };
        assert_eq!(judge(&line("start", "./x", "foreign="), &shipped, None).unwrap().answered_by, "/bin/x");
        assert_eq!(judge("", &shipped, None).unwrap().answered_by, "the program itself");
    }

    #[test]
    fn the_c_library_proves_itself_by_its_heap() {
        let text = line("start", "/lib/libc.so.6", "foreign=\tbound=3\tlibc_heap=0")
            + &line("end", "/lib/libc.so.6", "foreign=\tbound=7\tlibc_heap=135168");
        let proof = judge(&text, &glibc(), None).unwrap();
        assert!(proof.evidence.contains("132 KiB"), "{}", proof.evidence);
    }

    #[test]
    fn hakmem_that_counted_nothing_was_not_used() {
        let library = Path::new("/proc/self/exe").canonicalize().unwrap();
        let path = library.display();
        let hakmem = Allocator { library: Some(library.clone()), ..glibc() };
        let text = format!(
            "end\tpid=7\texe=/bin/x\tmalloc={path}\tfree={path}\tcalloc={path}\trealloc={path}\tforeign=\tbound=3\tlibc_heap=0\n"
        );
        assert!(judge(&text, &hakmem, Some(0)).unwrap_err().contains("no block"));
        assert!(judge(&text, &hakmem, Some(5)).unwrap().evidence.contains("5 refills"));
        let heap = text.replace("libc_heap=0", "libc_heap=9000000");
        assert!(judge(&heap, &hakmem, Some(5)).unwrap_err().contains("C library's heap"));
    }

    #[test]
    fn a_workloads_word_is_compared_by_name_or_path() {
        let hakmem = Allocator { library: Some("/x/libhakmem.so".into()), ..glibc() };
        let said = |said: &str, allocator: &Allocator| said_by_workload(said, &Server::Allocator(allocator));
        assert!(said("libhakmem.so", &hakmem).is_ok());
        assert!(said("libc.so.6", &hakmem).unwrap_err().contains("libc.so.6"));
        assert!(said("libc.so.6", &glibc()).is_ok());
        assert!(said("/x/other.so", &hakmem).is_err());
        let itself = std::env::current_exe().unwrap();
        let program = || Server::Program(itself.clone());
        assert!(said_by_workload(&itself.display().to_string(), &program()).is_ok());
        assert!(said_by_workload("/x/libhakmem.so", &program()).unwrap_err().contains("served by /x/libhakmem.so"));
        assert!(said_by_workload("", &Server::Program("/no/such/program".into())).is_err());
    }
}
