"""Programs written to files, and calls of them on arrays."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nacre.base.errors import MissingExtra
from nacre.deploy.compile import Deployed
from nacre.deploy.link import linker
from nacre.deploy.target import aim


def can_link(target: str = "host") -> bool:
    """Whether this machine links programs for a target."""
    try:
        linker(aim(target), static=False)
    except MissingExtra:
        return False
    return True


class Library:
    """A shared library, called on arrays."""

    def __init__(self, deployed: Deployed) -> None:
        self.about = deployed.interface
        self.native = ctypes.CDLL(str(deployed.path.resolve()))
        self.run = self.native[f"{self.about.name}_run"]
        self.run.restype = ctypes.c_int32
        self.native_workspace = self.native[f"{self.about.name}_workspace"]
        self.native_workspace.restype = ctypes.c_int64
        self.threads = self.native[f"{self.about.name}_threads"]
        self.error = self.native[f"{self.about.name}_error"]
        self.error.restype = ctypes.c_char_p

    def code(
        self, arrays: Sequence[np.ndarray | None], sizes: Sequence[int], workspace: int = 0, nbytes: int = 0
    ) -> int:
        """The error code of a call on the memory of arrays, null for None."""
        addresses = [ctypes.c_void_p(None if a is None else a.ctypes.data) for a in arrays]
        return self.run(
            *addresses, *map(ctypes.c_int64, sizes), ctypes.c_void_p(workspace or None), ctypes.c_int64(nbytes)
        )

    def workspace(self, *sizes: int) -> int:
        """The bytes that a call needs, or a negative error code."""
        return self.native_workspace(*map(ctypes.c_int64, sizes))

    def __call__(self, *inputs: np.ndarray, **sizes: int) -> list[np.ndarray]:
        """The outputs for dense inputs."""
        outputs = outputs_of(self.about.output_types, sizes)
        given = [np.ascontiguousarray(x) for x in inputs]
        code = self.code([*given, *outputs], [sizes[s.name] for s in self.about.symbols])
        assert code == 0, self.error(code)
        return outputs


def outputs_of(types: Sequence[object], sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Arrays of types for given sizes, filled with values that no program returns."""
    found: list[np.ndarray] = []
    for t in types:
        shape = [n if isinstance(n, int) else n.evaluate(sizes) for n in t.shape]  # type: ignore[attr-defined]
        array = np.empty(shape, t.dtype.numpy)  # type: ignore[attr-defined]
        array.view(np.uint8).fill(0xA5) if array.ndim else None
        found.append(array)
    return found


def execute(
    path: Path, *files: Path | str, data: bytes | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run an executable; it ends within seconds."""
    return subprocess.run([path, *files], input=data, capture_output=True, timeout=60, env=env, check=False)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same type and bits; NaNs are equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fV") and a.tobytes() == np.ascontiguousarray(b).tobytes()
