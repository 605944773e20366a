"""Where the library is, whether it can work here, and how a process's environment names it.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import sys

_NAME = "libhakmem.so"


class ProblemError(RuntimeError):
    """Why hakmem cannot serve a process here."""


def _machine(path):
    """What processor a program or library is for, as ELF numbers it."""
    with open(path, "rb") as file:
        header = file.read(20)
    return header[18:20] if header[:4] == b"\x7fELF" else None


def library():
    """The path of the library, or ProblemError where it cannot work."""
    if sys.platform != "linux":
        raise ProblemError(f"hakmem needs Linux, and this is {sys.platform}")
    try:
        os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        raise ProblemError("hakmem needs glibc, and this Python uses another C library, such as musl") from None
    path = pathlib.Path(__file__).with_name(_NAME)
    if not path.is_file():
        raise ProblemError(f"there is no {path}: hakmem was not installed from a wheel")
    if _machine(path) != _machine("/proc/self/exe"):
        raise ProblemError(f"{path} is for another processor than this Python")
    if re.search("[ :$]", str(path)):
        raise ProblemError(f"LD_PRELOAD cannot name {path}, which has a blank, a colon or a $ in it: "
                           "install hakmem elsewhere")
    return str(path)


def without(preload):
    """The value of LD_PRELOAD without any hakmem."""
    # As it is built, or as `hak install` names it.
    is_one = re.compile(r"libhakmem(\.so|-\d)").match
    return ":".join(part for part in re.split("[ :]+", preload) if part and not is_one(pathlib.Path(part).name))


def preloaded(preload):
    """The value of LD_PRELOAD with this hakmem first."""
    return ":".join(filter(None, [library(), without(preload)]))
