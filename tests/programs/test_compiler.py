"""Compilers turn the same sources into the same bytes.

Usage: test_compiler.py gcc|g++|clang|clang++|analyzer
The C compilers get the longest of this project's own sources, the C++ compilers all
that are in C++ and a file full of templates, which they then link and run.
"""
import sys

import harness

LONGEST = 20  # of some eighty; the others bring the compilers nothing new
INCLUDE = ["-I", harness.PROJECT / "include", "-I", harness.PROJECT / "src"]


def own_sources(*suffixes):
    found = sorted(path for path in (harness.PROJECT / "src").rglob("*") if path.suffix in suffixes)
    if not found:
        raise harness.Failure(f"no {' or '.join(suffixes)} file under {harness.PROJECT / 'src'}")
    return found


def objects(runner, compiler, sources, *flags):
    """Compiles each source; gives the objects and all that the compiler said."""
    outputs, said = {}, ""
    for number, source in enumerate(sources):
        name = f"{number}-{source.stem}.o"
        result = runner.run(compiler, *flags, *INCLUDE, "-D_GNU_SOURCE", "-c", "-o", name, source)
        outputs[f"{source.name} to {name}"] = (runner.directory / name).read_bytes()
        said += result.errors
    return {**outputs, "diagnostics": said}


def c_compiler(compiler):
    def test(runner):
        harness.require(compiler)
        sources = sorted(own_sources(".c"), key=lambda path: path.stat().st_size)[-LONGEST:]
        return objects(runner, compiler, sources, "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra")
    return test


def cxx_compiler(compiler):
    def test(runner):
        harness.require(compiler)
        templates = harness.FIXTURES / "templates.cpp"
        outputs = objects(runner, compiler, [*own_sources(".cc", ".cpp"), templates], "-std=c++20", "-O1", "-g")
        runner.run(compiler, "-o", "templates", *runner.directory.glob("*-templates.o"))
        outputs["program"] = (runner.directory / "templates").read_bytes()
        outputs["output of the program"] = runner.run("./templates").text
        return outputs
    return test


def analyzer(runner):
    harness.require("gcc")
    result = runner.run("gcc", "-std=gnu17", "-O2", "-fanalyzer", "-fanalyzer-verbosity=3", "-S", "-o", "-",
                        harness.FIXTURES / "analyze.c")
    if "-Wanalyzer" not in result.errors:
        raise harness.Failure(f"{runner.title}: gcc's analyzer finds nothing in a faulty file: {result.errors!r}")
    return {"assembly": result.text, "diagnostics": result.errors}


TESTS = {
    "gcc": c_compiler("gcc"),
    "g++": cxx_compiler("g++"),
    "clang": c_compiler("clang"),
    "clang++": cxx_compiler("clang++"),
    "analyzer": analyzer,
}

if __name__ == "__main__":
    harness.main(TESTS[sys.argv[1]])
