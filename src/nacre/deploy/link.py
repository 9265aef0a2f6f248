"""Links an object to an executable or a shared library, with the system's compiler driver or ziglang."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nacre.base.errors import CompileError, MissingExtra
from nacre.deploy.target import Aim

SYSTEM_DRIVERS = ("cc", "gcc", "clang")
SECURE = ("-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--gc-sections")


def linker(aim: Aim, static: bool) -> list[str]:
    """The command that links for a target: NACRE_CC if it is set, a compiler driver of this system, or zig.

    Raises MissingExtra if there is none.
    """
    chosen = os.environ.get("NACRE_CC", "").split()
    if chosen:
        return chosen
    native = aim.machine == platform.machine() and sys.platform.startswith("linux")
    if native and (aim.library == "gnu" or static):
        wanted = ["musl-gcc"] if aim.library == "musl" else [*SYSTEM_DRIVERS]
        found = next(filter(None, map(shutil.which, wanted)), None)
        if found is not None:
            return [found]
    crossing = shutil.which(f"{aim.machine}-linux-{aim.library}-gcc")
    if crossing is not None:
        return [crossing]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", aim.triple]
    raise MissingExtra(
        f"deploy: linking for {aim.triple} needs a C compiler driver; there is none; install one (on Debian and "
        "Ubuntu: apt-get install gcc), or: pip install 'nacre[deploy]'"
    )


def link(image: Path, path: Path, aim: Aim, shared: bool, static: bool) -> None:
    """Link an object into a file at `path`."""
    command = [*linker(aim, static), str(image), "-o", str(path), *SECURE, "-s"]
    if shared:
        command += ["-shared", "-Wl,-z,nodelete", f"-Wl,-soname,{path.name}"]  # threads of its pool outlive dlclose
    elif static:
        command += ["-static"]
    run([*command, "-pthread"])


def run(command: Sequence[str]) -> None:
    """Run a linker; raises CompileError with its output if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as fault:
        raise CompileError(
            f"deploy: cannot run the linker {command[0]}: {fault.strerror}; correct NACRE_CC, or install a C compiler"
        ) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise CompileError(f"deploy: the linker failed: {' '.join(command)}\n{said}")
