"""What the Python package promises, tried by a Python that has it installed.

Usage: python_test.py FOLDER, of the wheel and the source distribution; in a folder that may be written to

SPDX-License-Identifier: MIT
"""
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import unittest
import zipfile

import hakmem

DIST = pathlib.Path(sys.argv[-1])
SAY = "import hakmem, sys; print(hakmem.is_active(), sys.argv[1:], __name__)"


def python(*words, code=0, **environment):
    """What a Python says on standard output, or on standard error if it is to fail."""
    result = subprocess.run([sys.executable, *words], env={**os.environ, **environment}, text=True, timeout=100,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert result.returncode == code, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
    return (result.stderr if code else result.stdout).strip()


def is_active(_=None):
    return hakmem.is_active()


class Running(unittest.TestCase):
    def setUp(self):
        pathlib.Path("say.py").write_text(SAY)

    def test_a_script_with_arguments(self):
        self.assertEqual(python("say.py"), "False [] __main__")
        self.assertEqual(python("-m", "hakmem", "say.py", "-x", "--help", "two words"),
                         "True ['-x', '--help', 'two words'] __main__")

    def test_a_module(self):
        self.assertEqual(python("-m", "hakmem", "-m", "say", "1"), "True ['1'] __main__")

    def test_code(self):
        self.assertEqual(python("-m", "hakmem", "-c", SAY, "1"), "True ['1'] __main__")

    def test_a_script_imports_what_lies_beside_it(self):
        pathlib.Path("there").mkdir(exist_ok=True)
        pathlib.Path("there/beside.py").write_text("here = 1")
        pathlib.Path("there/script.py").write_text("import beside, sys; print(beside.here, sys.argv[0])")
        self.assertEqual(python("-m", "hakmem", "there/script.py"), "1 there/script.py")

    def test_options_of_python_hold(self):
        flags = "import hakmem, sys; f = sys.flags; print(hakmem.is_active(), f.optimize, f.dev_mode, f.isolated)"
        self.assertEqual(python("-OO", "-X", "dev", "-m", "hakmem", "-c", flags), "True 2 True 0")
        self.assertEqual(python("-OImhakmem", "-c", flags), "True 1 False 1")
        self.assertEqual(python("-Im", "hakmem", "-c", flags), "True 0 False 1")

    def test_the_environment_is_the_same(self):
        self.assertEqual(python("-m", "hakmem", "-c", "import sys; print(sys.prefix)"), sys.prefix)

    def test_its_status_is_the_programs(self):
        python("-m", "hakmem", "-c", "raise SystemExit(7)", code=7)

    def test_other_preloaded_libraries_stay(self):
        code = "import os; print(os.environ['LD_PRELOAD'])"
        self.assertEqual(python("-m", "hakmem", "-c", code, LD_PRELOAD="libm.so.6"), f"{hakmem.library()}:libm.so.6")
        self.assertEqual(python("-m", "hakmem", "-c", code, LD_PRELOAD=hakmem.library()), hakmem.library())

    def test_small_objects_with_malloc(self):
        code = "import hakmem; x = [str(i) for i in range(200000)]; print(hakmem.stats()['live'] // 1000000 > 8)"
        self.assertEqual(python("-m", "hakmem", "-c", code), "False")
        self.assertEqual(python("-m", "hakmem", "--malloc", "-c", code), "True")

    def test_versions(self):
        said = f"hakmem {hakmem.__version__}"
        self.assertEqual(python("-m", "hakmem", "--version"), said)
        self.assertEqual(python("-m", "hakmem", "-c", "import hakmem; print('hakmem', hakmem.version())"), said)
        self.assertIn("usage: python", python("-m", "hakmem", "--help"))


class Mistakes(unittest.TestCase):
    def check(self, words, message, **environment):
        self.assertIn(message, python(*words, code=2, **environment))

    def test_of_the_command(self):
        for words, message in {
            (): "python -m hakmem: there is no program to run",
            ("nothing.py",): "python -m hakmem: there is no file 'nothing.py'",
            ("-c",): "python -m hakmem: '-c' needs code after it",
            ("-m",): "python -m hakmem: '-m' needs the name of a module after it",
            ("-O", "say.py"): "python -m hakmem: there is no option '-O'; options of Python come before -m hakmem",
            ("--fast", "say.py"): "python -m hakmem: there is no option '--fast'",
        }.items():
            self.check(["-m", "hakmem", *words], message)
        self.check(["-I", "-m", "hakmem", "--malloc", "-c", "1"], "--malloc has no effect")

    def copy(self, folder):
        """The package at another place, and what makes Python find it there."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pathlib.Path(hakmem.__file__).parent, pathlib.Path(folder) / "hakmem")
        return {"PYTHONPATH": folder}

    def test_a_path_that_cannot_be_preloaded(self):
        for folder in "two words", "a$LIB":
            self.check(["-m", "hakmem", "-c", "1"], "has a blank, a colon or a $ in it", **self.copy(folder))

    def test_another_processor(self):
        environment = self.copy("processor")
        library = pathlib.Path("processor/hakmem/libhakmem.so")
        data = bytearray(library.read_bytes())
        data[18] ^= 1
        library.write_bytes(data)
        self.check(["-m", "hakmem", "-c", "1"], "is for another processor than this Python", **environment)

    def test_no_library(self):
        environment = self.copy("without")
        pathlib.Path("without/hakmem/libhakmem.so").unlink()
        self.check(["-m", "hakmem", "-c", "1"], "hakmem was not installed from a wheel", **environment)

    def test_another_c_library(self):
        code = """
            import os, sys
            def confstr(name): raise ValueError(name)
            os.confstr = confstr
            import hakmem
            try: hakmem.enable_for_children()
            except hakmem.ProblemError as problem: print(problem)
        """
        self.assertIn("another C library, such as musl", python("-c", textwrap.dedent(code)))

    def test_a_process_that_is_not_served(self):
        self.assertFalse(hakmem.is_active())
        for function in hakmem.stats, hakmem.trim, hakmem.version:
            with self.assertRaisesRegex(hakmem.NotServedError, "not served by hakmem"):
                function()

    def test_no_number(self):
        for wrong in -1, "all", 2**63:
            with self.assertRaises(ValueError):
                hakmem.trim(wrong)


class Figures(unittest.TestCase):
    def test_stats_follow_the_program(self):
        code = """
            import hakmem
            before = hakmem.stats()
            block = bytearray(b"x" * (50 << 20))
            between = hakmem.stats()
            del block
            hakmem.trim()
            after = hakmem.stats()
            print(between["live"] - before["live"] >= 50 << 20, between["resident"] - before["resident"] >= 50 << 20,
                  between["live"] - after["live"] >= 50 << 20, after["resident"] < between["resident"] - (45 << 20))
        """
        self.assertEqual(python("-m", "hakmem", "-c", textwrap.dedent(code)), "True True True True")

    def test_what_a_handler_of_a_signal_raises_arrives(self):
        code = textwrap.dedent("""
            import hakmem, signal
            class Interrupt(Exception): pass
            def handle(*_): raise Interrupt
            signal.signal(signal.SIGALRM, handle)
            def end(after):
                try:
                    signal.setitimer(signal.ITIMER_REAL, after)
                    while True: hakmem.stats()
                except Exception as error:
                    return type(error).__name__
            print({end(0.0005 + i % 40 * 0.00005) for i in range(400)})
        """)
        self.assertEqual(python("-m", "hakmem", "-c", code), "{'Interrupt'}")

    def test_an_end_that_there_is_no_room_for(self):
        code = textwrap.dedent("""
            import hakmem
            def write(text, piece): return text.tell() < 500 and text.write(piece)
            hakmem._write = hakmem._WRITE(write)
            try: hakmem.stats()
            except MemoryError: print("refused")
        """)
        self.assertEqual(python("-m", "hakmem", "-c", code), "refused")

    def test_the_report_at_exit(self):
        result = subprocess.run([sys.executable, "-m", "hakmem", "-c", "1"], env={**os.environ, "HAKMEM_STATS": "1"},
                                stderr=subprocess.PIPE, text=True, check=True)
        self.assertIn(f"hakmem {hakmem.__version__}", result.stderr)


class Children(unittest.TestCase):
    def tearDown(self):
        hakmem.disable_for_children()
        self.assertNotIn("LD_PRELOAD", os.environ)

    def pool(self, method):
        with multiprocessing.get_context(method).Pool(2) as pool:
            return set(pool.map(is_active, range(4)))

    def test_of_a_process_that_is_not_served(self):
        self.assertEqual(self.pool("spawn"), {False})
        hakmem.enable_for_children()
        hakmem.enable_for_children()
        self.assertEqual(os.environ["LD_PRELOAD"], hakmem.library())
        self.assertEqual(self.pool("spawn"), {True})
        self.assertEqual(self.pool("forkserver"), {True})
        self.assertEqual(self.pool("fork"), {False})
        self.assertEqual(python("-c", "import hakmem; print(hakmem.is_active())"), "True")

    def test_of_one_that_was_installed(self):
        os.environ["LD_PRELOAD"] = "/no/libhakmem-0.1.0-c9f52ce9.so:/no/libhakmem.so.0:/no/libhakmem_other.so"
        hakmem.disable_for_children()
        self.assertEqual(os.environ.pop("LD_PRELOAD"), "/no/libhakmem_other.so")

    def test_of_a_process_that_is_served(self):
        pathlib.Path("pools.py").write_text(textwrap.dedent("""
            import multiprocessing, sys, hakmem

            def work(n):
                words = [str(i) * n for i in range(1000)]
                return hakmem.is_active(), sum(map(len, words))

            if __name__ == "__main__":
                for method in "fork", "spawn", "forkserver":
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        print(method, sorted(pool.map(work, range(1, 4))))
        """))
        each = "[(True, 2890), (True, 5780), (True, 8670)]"
        for options in [], ["--malloc"]:
            self.assertEqual(python("-m", "hakmem", *options, "pools.py").splitlines(),
                             [f"{method} {each}" for method in ("fork", "spawn", "forkserver")])


class Packages(unittest.TestCase):
    def test_the_wheel_says_what_it_needs(self):
        wheel, = DIST.glob(f"*_{os.uname().machine}.whl")
        version, = re.findall(r"^hakmem-([\d.]+)-py3-none-manylinux_2_\d+_(?:x86_64|aarch64)\.whl$", wheel.name)
        self.assertEqual(version, hakmem.__version__)
        with zipfile.ZipFile(wheel) as file:
            names = {name.split("/")[-1] for name in file.namelist() if name.startswith("hakmem/")}
        self.assertEqual(names, {"__init__.py", "__main__.py", "_library.py", "libhakmem.so", "LICENSE"})

    def test_a_wheel_does_not_tell_where_it_was_built(self):
        for wheel in DIST.glob("*.whl"):
            with zipfile.ZipFile(wheel) as file:
                library = file.read("hakmem/libhakmem.so")
            self.assertIn(b"src/arena/huge.c", library)
            self.assertNotIn(b"/core/src/", library)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
