"""The memory allocator hakmem for Python programs.

    python -m hakmem script.py     runs a program under it

A program that is served by it can ask and tell it more: see `stats` and `trim`. One that is not can have it
for the processes that it starts: see `enable_for_children`.

SPDX-License-Identifier: MIT
"""
import ctypes
import functools
import io
import json
import os

from ._library import ProblemError, library, preloaded, without

__all__ = ["NotServedError", "ProblemError", "disable_for_children", "enable_for_children", "is_active", "library",
           "stats", "trim", "version"]
__version__ = "0.1.0"

# BytesIO.write as hak_write_fn: the context is the object, and the length goes by, as each piece ends with a NUL. Nothing
# of it is Python code, which would run Python's handlers of signals: what they raise does not pass through C.
_WRITE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.py_object, ctypes.c_char_p)
_write = _WRITE(io.BytesIO.write)


class NotServedError(RuntimeError):
    """This process was not started under hakmem."""

    def __init__(self):
        super().__init__("this process is not served by hakmem: start it by `python -m hakmem` or with LD_PRELOAD")


@functools.cache
def _process():
    """The process's functions, if its malloc is hakmem's, else None. That does not change while it runs."""
    process = ctypes.CDLL(None)
    try:
        owns, malloc, free = process.hak_owns, process.malloc, process.free
    except AttributeError:
        return None
    owns.argtypes, owns.restype = [ctypes.c_void_p], ctypes.c_bool
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None
    block = malloc(1)
    is_ours = owns(block)
    free(block)
    if not is_ours:
        return None
    process.hak_version.argtypes, process.hak_version.restype = [], ctypes.c_char_p
    process.hak_trim.argtypes, process.hak_trim.restype = [ctypes.c_size_t], ctypes.c_bool
    process.hak_stats_json.argtypes, process.hak_stats_json.restype = [_WRITE, ctypes.py_object], None
    return process


def _served():
    process = _process()
    if process is None:
        raise NotServedError
    return process


def is_active():
    """Whether hakmem serves this process."""
    return _process() is not None


def version():
    """The version of the library that serves this process, such as "0.1.0". NotServedError: there is none."""
    return _served().hak_version().decode()


def stats():
    """What the heap holds, what of it is resident, and the size classes in use, by their names in docs/configuration.md.
    NotServedError: it is not hakmem's.

    Takes time in proportion to what is mapped, 3 to 7 milliseconds for each GiB.
    """
    text = io.BytesIO()
    _served().hak_stats_json(_write, text)
    try:
        return json.loads(text.getvalue())
    except ValueError:
        raise MemoryError from None  # it has an end that there was no room for


def trim(keep_bytes=0):
    """Returns every page of free memory beyond `keep_bytes` to the system. True if there was any.

    What only Python's garbage collector could free is not free: gc.collect() comes first, where that matters.
    NotServedError: it is not hakmem's.
    """
    if not isinstance(keep_bytes, int) or not 0 <= keep_bytes <= 2**63 - 1:
        raise ValueError(f"keep_bytes is a number of bytes, and {keep_bytes!r} is none")
    return _served().hak_trim(keep_bytes)


def enable_for_children():
    """Processes that this one starts from now on are served by hakmem: of subprocess, os.exec, and multiprocessing.

    Those that fork without a new program (multiprocessing's start method `fork`) are as this process is. So are
    those of a `forkserver` that runs already. ProblemError: hakmem cannot serve any here.
    """
    os.environ["LD_PRELOAD"] = preloaded(os.environ.get("LD_PRELOAD", ""))


def disable_for_children():
    """Processes that this one starts from now on are not served by hakmem, unless by fork alone.

    Nor unless the whole system is (/etc/ld.so.preload).
    """
    rest = without(os.environ.get("LD_PRELOAD", ""))
    if rest:
        os.environ["LD_PRELOAD"] = rest
    else:
        os.environ.pop("LD_PRELOAD", None)
