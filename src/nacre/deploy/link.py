"""Links an object to an executable or a shared library, with the system's compiler driver or ziglang."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nacre.base.errors import CompileError, MissingExtra
from nacre.base.progress import progress
from nacre.deploy.target import CompileTarget

SYSTEM_DRIVERS = ("cc", "gcc", "clang")
POLL = 0.2  # seconds between two reports of a linker
SECURE = ("-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--gc-sections")


def linker(aim: CompileTarget, static: bool) -> list[str]:
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


def by_zig(aim: CompileTarget, static: bool) -> bool:
    """Whether ziglang links for a target; the first time, it compiles the target's C library, which takes minutes."""
    return "ziglang" in linker(aim, static)


def link(image: Path, path: Path, aim: CompileTarget, shared: bool, static: bool) -> None:
    """Link an object into a file at `path`."""
    command = [*linker(aim, static), str(image), "-o", str(path), *SECURE, "-s"]
    if shared:
        command += ["-shared", "-Wl,-z,nodelete", f"-Wl,-soname,{path.name}"]  # threads of its pool outlive dlclose
    elif static:
        command += ["-static"]
    run([*command, "-pthread"])


def run(command: Sequence[str]) -> None:
    """Run a linker and report its seconds; raises CompileError with its output if it fails."""
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            printed, complaint = _waited(child)
    except OSError as fault:
        raise CompileError(
            f"deploy: cannot run the linker {command[0]}: {fault.strerror}; correct NACRE_CC, or install a C compiler"
        ) from None
    if child.returncode:
        output = (complaint or printed).strip()[-1500:]
        raise CompileError(f"deploy: the linker failed: {' '.join(command)}\n{output}")


def _waited(child: subprocess.Popen[str]) -> tuple[str, str]:
    """The output of a process until its end; the process is killed if the wait is interrupted."""
    start = time.monotonic()
    while True:
        try:
            return child.communicate(timeout=POLL)
        except subprocess.TimeoutExpired:
            progress("linking, seconds:", int(time.monotonic() - start))
        except BaseException:
            child.kill()
            raise
