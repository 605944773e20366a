"""Python runs modules of its own test-suite, and a pool of forked processes.

Usage: test_python.py objects|containers|pymalloc|threads|pool|limit
"""
import re
import shutil
import subprocess
import sys

import harness

GROUPS = {
    # Every kind of object: with PYTHONMALLOC=malloc each is a block of its own.
    "objects": ["test_json", "test_bytes", "test_re", "test_gc", "test_zlib", "test_ctypes", "test_xml_etree_c"],
    "containers": ["test_dict", "test_list", "test_set", "test_sort", "test_deque", "test_array"],
    # Python's default: its own pools for small objects, malloc behind them.
    "pymalloc": ["test_json", "test_dict", "test_list", "test_bytes", "test_zlib"],
    # Without the classes that test timeouts: they fail on a busy machine.
    "threads": ["test_threading.ThreadTests", "test_threading.ThreadJoinOnShutdown",
                "test_threading.SubinterpThreadingTests", "test_threading.ThreadingExceptionTests",
                "test_thread", "test_threading_local", "test_fork1.ForkTest"],
}
FEWEST_TESTS = 60

# One line of unittest's report: name (class) ... verdict. What a test prints
# itself may stand between the two, so the verdict is looked for at the end.
VERDICT = re.compile(r"^(?P<name>\w+ \([\w.]+\))(?:.|\n)*?\.\.\. (?:.|\n)*?"
                     r"(?P<verdict>\bok|\bFAIL|\bERROR|\bskipped .*|\bexpected failure)$", re.MULTILINE)


def interpreter():
    """A Python that has the test-suite: Debian packages it separately, and other
    builds may leave it out."""
    for python in (sys.executable, shutil.which("python3"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import test.test_json, test.test_threading"],
                                     stderr=subprocess.DEVNULL).returncode == 0:
            return python
    raise harness.Skip("no Python here has its test-suite; `scripts/deps test` installs it")


def own_tests(group, malloc):
    def test(runner):
        python = interpreter()
        result = runner.run(python, "-m", "unittest", "-v", *(f"test.{name}" for name in GROUPS[group]),
                            env={"PYTHONMALLOC": malloc, "PYTHONHASHSEED": "1"}, status=None)
        verdicts = [f"{match['name']} {match['verdict']}" for match in VERDICT.finditer(result.errors)]
        if len(verdicts) < FEWEST_TESTS:
            raise harness.Failure(f"{runner.title}: {python} ran only {len(verdicts)} of its own tests:\n"
                                  + harness.last_lines(result.errors))
        # A test that fails on this machine also without hakmem is no fault of
        # hakmem: the verdicts are compared, not demanded.
        return {f"verdicts of {len(verdicts)} tests": "\n".join(sorted(verdicts)),
                "summary": result.errors.splitlines()[-1], "exit status": result.status}
    return test


def pool(runner):
    result = runner.run(sys.executable, harness.FIXTURES / "pool.py", env={"PYTHONMALLOC": "malloc"})
    return {"results of the pool": result.text, "stderr": result.errors}


def limited(runner):
    """A limit on address space is where a large reservation would fail."""
    script = "import json; print(len(json.dumps([{'n': i} for i in range(50000)])))"
    result = runner.run("bash", "-c", 'ulimit -v 300000 && exec "$0" -c "$1"', sys.executable, script,
                        env={"PYTHONMALLOC": "malloc"})
    return {"output under ulimit -v 300000": result.text, "stderr": result.errors}


TESTS = {
    "objects": own_tests("objects", "malloc"),
    "containers": own_tests("containers", "malloc"),
    "pymalloc": own_tests("pymalloc", "default"),
    "threads": own_tests("threads", "malloc"),
    "pool": pool,
    "limit": limited,
}

if __name__ == "__main__":
    harness.main(TESTS[sys.argv[1]])
