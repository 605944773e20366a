#!/usr/bin/env python3
"""What bindings/ says twice is what the library says: its version, how it is compiled, the members of its structures.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of CMakeLists.txt: what the crate leaves out, and what it needs besides.
WARNINGS = re.compile(r"-W|-w$")
CXX_ONLY = {"-fno-rtti"}
OF_CRATE = {"-std=gnu17", "-flto", "-flto=auto", "-flinker-output=nolto-rel", "-fno-fat-lto-objects"}
TYPES = {"size_t": "usize", "uint64_t": "u64"}


def flags(text):
    return {flag for flag in re.findall(r"(?<![\w-])-[fWw][\w=-]*", text) if not WARNINGS.match(flag)}


def c_members(header, struct):
    body = re.search(r"typedef struct %s \{(.*?)\n\}" % struct, header, re.DOTALL)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    declarations = [line.split(None, 1) for line in body.split(";") if line.strip()]
    return [(name.strip(), TYPES[kind]) for kind, names in declarations for name in names.split(",")]


def rust_members(text, struct):
    body = re.search(r"pub struct %s_t \{(.*?)\n\}" % struct, text, re.DOTALL)[1]
    return re.findall(r"^    pub (\w+): (\w+),$", body, re.MULTILINE)


def main():
    read = lambda path: (ROOT / path).read_text()
    cmake, header = read("CMakeLists.txt"), read("include/hakmem.h")
    version = re.search(r"project\(hakmem VERSION (\S+)", cmake)[1]
    wrong = []

    said = {"bindings/rust/Cargo.toml": r'^version = "(.*)"',
            "bindings/rust/Cargo.lock": r'name = "hakmem(?:-sys)?"\nversion = "(.*)"',
            "bindings/python/pyproject.toml": r'^version = "(.*)"',
            "bindings/python/src/hakmem/__init__.py": r'^__version__ = "(.*)"',
            "tests/bindings/rust_user/Cargo.toml": r'path = "\.\./hakmem(?:-sys)?-([\d.]+)"'}
    for path, pattern in said.items():
        found = re.findall(pattern, read(path), re.MULTILINE)
        if not found or set(found) != {version}:
            wrong.append(f"{path} says version {', '.join(found) or 'nothing'}, and CMakeLists.txt {version}")

    options = re.search(r"target_compile_options\(hakmem_options INTERFACE\n(.*?)\nif\(", cmake, re.DOTALL)[1]
    of_library = flags(re.sub(r"#.*", "", options)) - CXX_ONLY
    of_crate = flags(re.sub(r"//.*", "", read("bindings/rust/hakmem-sys/build.rs"))) - OF_CRATE
    if of_library != of_crate or len(of_library) < 5:
        wrong.append(f"build.rs does not compile as CMakeLists.txt does: {', '.join(sorted(of_library ^ of_crate))}")

    rust = read("bindings/rust/hakmem-sys/src/stats.rs")
    for struct in ("hak_stats", "hak_account", "hak_heap_stats"):
        if c_members(header, struct) != rust_members(rust, struct):
            wrong.append(f"{struct}_t: stats.rs does not have the members of hakmem.h")
    declarations = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    functions = set(re.findall(r"\b(hak_\w+)\([^;]*?\) HAK_NOEXCEPT", declarations))
    declared = set(re.findall(r"pub fn (hak_\w+)", read("bindings/rust/hakmem-sys/src/lib.rs")))
    if functions != declared or len(functions) < 15:
        wrong.append(f"lib.rs does not declare the functions of hakmem.h: {', '.join(sorted(functions ^ declared))}")
    print("\n".join(wrong) or f"version {version}, {len(of_library)} flags, {len(functions)} functions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
