"""PHP opens its extensions with RTLD_DEEPBIND, and they free what it has allocated."""
import harness


def test(runner):
    harness.require("php")
    outputs = {}
    # Without the second, blocks of PHP's own are pieces of large ones.
    for name, env in (("PHP's pools", {}), ("malloc alone", {"USE_ZEND_ALLOC": "0"})):
        result = runner.run("php", harness.FIXTURES / "work.php", env=env)
        outputs[f"output of php with {name}"] = result.text
        outputs[f"stderr with {name}"] = result.errors
    return outputs


if __name__ == "__main__":
    harness.main(test)
