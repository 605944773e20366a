"""Node.js runs buffers, JSON and zlib in worker threads."""
import harness


def test(runner):
    harness.require("node")
    result = runner.run("node", harness.FIXTURES / "work.js")
    return {"output of node": result.text, "stderr": result.errors}


if __name__ == "__main__":
    harness.main(test)
