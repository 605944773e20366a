"""cargo builds a small crate without dependencies, and what it built runs."""
import shutil

import harness


def test(runner):
    harness.require("cargo")
    shutil.copytree(harness.FIXTURES / "crate", runner.directory / "crate")
    runner.run("cargo", "build", "--offline", "--quiet", "--release", "--manifest-path", "crate/Cargo.toml",
               env={"CARGO_TARGET_DIR": str(runner.directory / "target"), "CARGO_TERM_COLOR": "never"})
    program = runner.directory / "target/release/work"
    result = runner.run(program)
    return {"program": program.read_bytes(), "output of the program": result.text, "stderr": result.errors}


if __name__ == "__main__":
    harness.main(test)
