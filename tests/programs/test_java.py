"""javac compiles and java runs a program of many threads."""
import harness


def test(runner):
    harness.require("javac", "java")
    # The compiler itself is a large Java program; its class file has to match too.
    compiled = runner.run("javac", "-J-Xshare:auto", "-d", ".", harness.FIXTURES / "Work.java")
    result = runner.run("java", "-Xmx256m", "-cp", ".", "Work")
    return {"class file": (runner.directory / "Work.class").read_bytes(), "output of java": result.text,
            "stderr": compiled.errors + result.errors}


if __name__ == "__main__":
    harness.main(test)
