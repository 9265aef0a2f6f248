"""Facts about this machine and installation, and checks that all modes of execution give the same bits."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from nacre import __version__
from nacre.base.errors import DeviceError, Error, file_error, reason
from nacre.base.records import dataclass
from nacre.inspect import bits
from nacre.native import cache as objects
from nacre.native import limits, trust
from nacre.native.engine import host_target, version
from nacre.native.isa import BY_NAME, INSTRUCTION_SETS
from nacre.native.pool import pool
from nacre.runtime.buffer import readable

PACKAGES = ("numpy", "llvmlite", "ml-dtypes", "safetensors", "rich", "scikit-learn", "pyarrow", "ziglang")
SHOWN_FEATURES = (  # of the processor: those that an instruction set needs or may use
    *dict.fromkeys(
        feature
        for isa in reversed(INSTRUCTION_SETS)
        for feature in (*isa.needs, *(name for name, _, _ in isa.optional))
    ),
    "neon",
    "bf16",
    "dotprod",
)


@dataclass(frozen=True)
class Check:
    """One comparison of bits: its name, and the probes that differ (None if it could not run)."""

    name: str
    differing: tuple[str, ...] | None
    remark: str = ""

    @property
    def passed(self) -> bool:
        """Whether no probe differs."""
        return not self.differing


@dataclass(frozen=True)
class Kept:
    """The code cache on disk: its folder (None: off), the number of kernels and programs, and their bytes."""

    directory: str | None
    kernels: int
    programs: int
    bytes: int
    limit: int

    def __str__(self) -> str:
        return f"{self.kernels} kernels and {self.programs} programs, {readable(self.bytes)}"


def facts() -> dict[str, str]:
    """Facts about the machine and the installation, as names and values.

    >>> from nacre.inspect.machine import facts
    >>> {"instruction set", "memory", "processor", "threads"} <= set(facts())
    True
    """
    target = host_target()
    features = {word[1:] for word in target.features.split(",") if word.startswith("+")}
    cache = cached()
    return {
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "nacre": __version__,
        "packages": ", ".join(f"{p} {v}" for p, v in versions().items()),
        "compiler": version(),
        "processor": target.cpu,
        "instruction set": f"{target.isa} (has {', '.join(f for f in SHOWN_FEATURES if f in features)})",
        "threads": f"{pool().threads} of {len(limits.allowed_processors())} allowed processors",
        "memory": readable(limits.memory()),
        "code cache": "off (NACRE_CACHE_DIR)"
        if cache.directory is None
        else f"{cache.directory}: {cache} of at most {readable(cache.limit)}",
    }


def versions() -> dict[str, str]:
    """The versions of the relevant installed packages."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def cached() -> Kept:
    """The contents of the cache of kernels and programs on disk.

    >>> from nacre.inspect.machine import cached
    >>> cached().bytes >= 0
    True
    """
    chosen = objects.default_directory()
    directory = chosen and trust.folder(chosen)
    kernels, programs = (_sizes(folder) for folder in _folders(directory))
    return Kept(
        directory, len(kernels), len(programs), sum(kernels.values()) + sum(programs.values()), objects.default_size()
    )


def clear_cache() -> Kept:
    """Remove all kernels and programs from the disk cache, and no other files; returns the previous contents."""
    before = cached()
    for folder in _folders(before.directory):
        for path in _sizes(folder):
            try:
                path.unlink(missing_ok=True)
            except OSError as fault:
                raise file_error(
                    f"cache: the files must be removable; got {path}: {reason(fault)}; remove it yourself", fault
                ) from None
    return before


def _folders(directory: str | None) -> tuple[Path | None, Path | None]:
    """The paths of kernels and programs."""
    return (None, None) if directory is None else (Path(directory), Path(directory, "programs"))


def _sizes(folder: Path | None) -> dict[Path, int]:
    """The bytes of each object in a folder; another process may remove some meanwhile."""
    found: dict[Path, int] = {}
    if folder is not None and folder.is_dir():
        for path in folder.iterdir():
            if objects.OBJECT_NAME.fullmatch(path.name):
                with contextlib.suppress(FileNotFoundError):
                    status = path.lstat()
                    if not stat.S_ISDIR(status.st_mode):  # a folder is not an object
                        found[path] = status.st_size
    return found


def checks() -> Iterator[Check]:
    """Run the probes in every mode of this machine, and compare each with the first, one after the other.

    >>> from nacre.inspect.machine import checks
    >>> [check.name for check in checks() if not check.passed]
    []
    """
    reference = bits.measure()
    several = max(2, pool().threads)
    yield _compare("compiled and eager", reference, lambda: bits.measure(compiled=True))
    yield _compare(f"1 thread and {several}", bits.measure(threads=1), lambda: bits.measure(threads=several))
    yield _other_isa(reference)


def _compare(name: str, reference: dict[str, str], other: Callable[[], dict[str, str]]) -> Check:
    try:
        found = other()
    except (Error, OSError, ValueError) as fault:
        return Check(name, None, str(fault))
    return Check(name, tuple(k for k in reference if found.get(k) != reference[k]))


def other_isa() -> str | None:
    """Another instruction set that this machine can run, if it has one."""
    here = host_target().isa
    for isa in BY_NAME:
        if isa == here:
            continue
        try:
            host_target(isa)
        except DeviceError:
            continue
        return isa
    return None


def _other_isa(reference: dict[str, str]) -> Check:
    here, other = host_target().isa, other_isa()
    if other is None:
        return Check("instruction sets", None, f"this machine has only {here}")
    return _compare(f"{here} and {other}", reference, lambda: elsewhere(other))


def elsewhere(isa: str) -> dict[str, str]:
    """The probes' hashes from another process, which uses the given instruction set."""
    run = subprocess.run(
        [sys.executable, "-m", "nacre.inspect.bits"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NACRE_ISA": isa, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if run.returncode:
        raise DeviceError(f"doctor: the process with NACRE_ISA={isa} failed: {run.stderr.strip()[-300:]}")
    return bits.parse(run.stdout)
