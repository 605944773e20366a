#!/usr/bin/env python3
"""The wheel for 64-bit Arm: what its name says is what is in it, its Python is that of the other wheel, and its library
serves a program, under an emulator. A Python for that machine is not tried.

Usage: arm_wheel.py WORK WHEEL, WORK having the program that served.c makes; beside WHEEL lies the other one

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import struct
import subprocess
import sys
import zipfile

EM_AARCH64 = 183
EMULATOR = ["qemu-aarch64", "-E", "HAKMEM_RESERVE=16G", "-L", "/usr/aarch64-linux-gnu"]


def contents(wheel):
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def main():
    work, wheel = (pathlib.Path(argument) for argument in sys.argv[1:])
    other, = (path for path in wheel.parent.glob("*.whl") if path != wheel)
    version, tag = re.fullmatch(r"hakmem-([\d.]+)-(py3-none-manylinux_2_\d+_aarch64)\.whl", wheel.name).groups()
    files, others = contents(wheel), contents(other)
    meta = f"hakmem-{version}.dist-info"
    assert f"Tag: {tag}\n" in files[f"{meta}/WHEEL"].decode(), files[f"{meta}/WHEEL"]
    assert "Root-Is-Purelib: false" in files[f"{meta}/WHEEL"].decode(), files[f"{meta}/WHEEL"]
    assert files.keys() == others.keys(), files.keys() ^ others.keys()
    differ = {name for name in files if files[name] != others[name]}
    assert differ == {"hakmem/libhakmem.so", f"{meta}/WHEEL", f"{meta}/RECORD"}, differ
    library = files["hakmem/libhakmem.so"]
    assert library[:6] == b"\x7fELF\x02\x01" and struct.unpack_from("<H", library, 18)[0] == EM_AARCH64, library[:20]

    (work / "libhakmem.so").write_bytes(library)
    preload = ["-E", f"LD_PRELOAD={work / 'libhakmem.so'}"]
    for options, said in ((preload, version), ([], "nobody")):
        result = subprocess.run([*EMULATOR, *options, work / "served"], text=True, stdout=subprocess.PIPE, check=True)
        assert result.stdout.strip() == said, result.stdout
    print(f"{wheel.name}: its library serves a program")


if __name__ == "__main__":
    main()
