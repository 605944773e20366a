"""Compiles libhakmem.so for the wheel, with CMake.

A cross compiler is chosen as for CMake, by the variable CMAKE_TOOLCHAIN_FILE.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

from elftools.elf.elffile import ELFFile
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
# What every system with glibc has, and a wheel may rely on.
SYSTEM_LIBRARIES = {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def platform_tag(library):
    """The oldest glibc that has all the library asks for, as the names of wheels say it (PEP 600)."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        machine = MACHINES.get(elf["e_machine"])
        if machine is None:
            raise SystemExit(f"hakmem runs on x86-64 and aarch64 only, and the compiler is one for {elf['e_machine']}")
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        if needed - SYSTEM_LIBRARIES:
            raise SystemExit(f"{library.name} needs what not every system has: {', '.join(needed - SYSTEM_LIBRARIES)}")
        names = [version.name for _, versions in elf.get_section_by_name(".gnu.version_r").iter_versions()
                 for version in versions]
    newest = max(tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in names
                 if name.startswith("GLIBC_"))
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def check_system():
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        raise SystemExit(f"hakmem needs Linux with glibc, and this is {platform.system()} with "
                         f"{platform.libc_ver()[0] or 'another C library'}")
    for tool in ("cmake", "cc", "c++"):
        if shutil.which(tool) is None and not (tool != "cmake" and os.environ.get("CMAKE_TOOLCHAIN_FILE")):
            raise SystemExit(f"compiling hakmem needs {tool}, which is not here (Debian: apt-get install cmake gcc g++)")


def compile_library(source, build):
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    # The wheel carries no debug information; the symbols that `hak inspect` looks for stay.
    configure = ["cmake", "-S", source, "-B", build, *ninja, "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--strip-debug"]
    # pip builds in a folder of another name each time, which would be in the names of source files.
    prefix_map = f"-ffile-prefix-map={source}=."
    flags = {name: f"{os.environ.get(name, '')} {prefix_map}".strip() for name in ("CFLAGS", "CXXFLAGS")}
    for command in (configure, ["cmake", "--build", build, "--target", "hakmem_shared", "--parallel"]):
        result = subprocess.run(command, env={**os.environ, **flags}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{result.stdout}")
    return (build / "libhakmem.so").resolve()


class BuildHook(BuildHookInterface):
    """Adds the library to wheels."""

    def initialize(self, version, build_data):
        if self.target_name != "wheel":
            return
        if version == "editable":
            raise SystemExit("hakmem cannot be installed to be edited (pip install -e): the library has no place there")
        check_system()
        root = pathlib.Path(self.root)
        source = root / "core" if (root / "core").is_dir() else root.parents[1]
        self.scratch = tempfile.TemporaryDirectory(prefix="hakmem-build-")
        library = compile_library(source, pathlib.Path(self.scratch.name))
        build_data["force_include"][str(library)] = "hakmem/libhakmem.so"
        build_data["force_include"][str(source / "LICENSE")] = "hakmem/LICENSE"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(library)}"

    def finalize(self, version, build_data, artifact_path):
        if self.target_name == "wheel":
            self.scratch.cleanup()
