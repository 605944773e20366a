"""sqlite3 works in memory and on a file, which must come out the same."""
import harness


def test(runner):
    harness.require("sqlite3")
    script = harness.FIXTURES / "work.sql"
    memory = runner.run("sqlite3", "-batch", "-bail", ":memory:", stdin=script)
    file = runner.run("sqlite3", "-batch", "-bail", "work.db", stdin=script)
    if not file.text.rstrip().endswith("ok"):
        raise harness.Failure(f"{runner.title}: sqlite3 finds its database damaged: {file.text[-200:]}")
    dump = runner.run("sqlite3", "-batch", "work.db", "SELECT * FROM item; SELECT * FROM log;")
    return {"results in memory": memory.text, "results on a file": file.text, "dump": dump.text,
            "database file": (runner.directory / "work.db").read_bytes(),
            "stderr": memory.errors + file.errors + dump.errors}


if __name__ == "__main__":
    harness.main(test)
