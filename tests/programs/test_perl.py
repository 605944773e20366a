"""Perl works on a text, in one interpreter and in threads."""
import harness


def test(runner):
    harness.require("perl")
    result = runner.run("perl", harness.FIXTURES / "work.pl", env={"PERL_HASH_SEED": "0"})
    return {"output of perl": result.text, "stderr": result.errors}


if __name__ == "__main__":
    harness.main(test)
