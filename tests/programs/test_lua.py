"""Lua works on tables, strings and coroutines."""
import shutil

import harness


def test(runner):
    lua = next(filter(shutil.which, ("lua5.4", "lua")), None)
    if lua is None:
        raise harness.Skip("lua is not installed; `scripts/deps test` installs it")
    result = runner.run(lua, harness.FIXTURES / "work.lua")
    return {"output of lua": result.text, "stderr": result.errors}


if __name__ == "__main__":
    harness.main(test)
