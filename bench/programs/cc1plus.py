"""The compiler that g++ starts as another process, to be run by itself: as a program of its own it can be recorded and
measured.

SPDX-License-Identifier: MIT
"""
import subprocess
from pathlib import Path


def asked(question):
    return subprocess.run(["g++", question], check=True, capture_output=True, text=True).stdout.strip()


def compiler():
    """Its file, and the words that g++ gives it whatever it compiles."""
    machine = asked("-print-multiarch")
    words = ["-quiet", *(["-imultiarch", machine] if machine else []), "-D_GNU_SOURCE"]
    return Path(asked("-print-prog-name=cc1plus")).resolve(), words
