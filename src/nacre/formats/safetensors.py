"""Tensors by name as safetensors files: written whole or not at all, read through a memory map, checked on the way."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError, TensorSpec, serialize_file

from nacre.api.operands import as_tensor
from nacre.api.tensor import Tensor
from nacre.base import dtypes
from nacre.base.dims import Size
from nacre.base.dtypes import DType
from nacre.base.errors import ArgumentError, DeviceError, Error
from nacre.base.records import dataclass
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.trace.value import Value

NAMES = {
    "BOOL": dtypes.bool_, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
LONGEST_HEADER = 100_000_000  # bytes, as the format's own library has it
MOST_AXES = 64
SHOWN = 32  # characters of a file's name in the name of the new file that takes its place


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies in a file: its bytes from `start` on, after the header."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


def save(tensors: Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors by name, such as a state dict, to a safetensors file; an interrupted write leaves the old file.

    The same tensors and metadata give the same bytes, in whatever order they are.

    The mode of a file that was there is kept; a link is replaced, what it leads to stays.  Raises ArgumentError for
    what has no dtype of the format, DeviceError where the file cannot be written, or is a device, pipe or folder.

    >>> nc.save(nn.Linear(3, 2).state_dict(), "linear.safetensors")
    >>> {k: v.shape for k, v in nc.load("linear.safetensors").items()}
    {'bias': (2,), 'weight': (2, 3)}
    """
    held: dict[str, np.ndarray] = {}
    for name, tensor in cast("Mapping[object, Any]", tensors).items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ArgumentError(f"save: names of tensors, other than __metadata__, are required; got {name!r}")
        x = as_tensor(tensor)
        if not _representable(x.type.shape, x.type.dtype):
            raise ArgumentError(f"save: sizes whose product fits into 63 bits are required; {name!r} is {x.type}")
        held[name] = np.asarray(to_numpy(x), order="C")
    specs = {name: TensorSpec(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
             for name, a in held.items()}
    with replacing(Path(path)) as made:
        try:
            serialize_file(specs, made, metadata=dict(metadata) if metadata else None)
        except UnicodeEncodeError as fault:
            raise ArgumentError(f"save: names that UTF-8 can write are required; {fault}") from None
        except SafetensorError as fault:
            if "os error" in str(fault):
                raise OSError(str(fault)) from None
            raise ArgumentError(f"save: tensors that safetensors can hold are required; {fault}") from None
        if metadata:
            _sort_metadata(made)


def _sort_metadata(path: Path) -> None:
    """Order the metadata of a file by name: the format's library writes them in an order of chance."""
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        listed = json.loads(file.read(length))
        listed["__metadata__"] = dict(sorted(listed["__metadata__"].items()))
        file.seek(8)
        file.write(json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode().ljust(length))


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file, by name.

    Raises ArgumentError, saying what is wrong, for a file that is not one in every byte; DeviceError where it cannot
    be read.  Nothing in a file is run.

    >>> nc.save({"scale": nc.tensor([1.0, 2.0])}, "scale.safetensors")
    >>> nc.load("scale.safetensors")
    {'scale': Tensor([1., 2.], f32[2])}
    """
    with opened(Path(path)) as file:
        return {name: cast("Tensor", file.tensor(name)) for name in file.entries}


class File:
    """An open safetensors file: what it lists, and the tensors that are asked for."""

    def __init__(self, path: Path, data: mmap | bytes) -> None:
        self.path, self.data = path, data
        self.begin, header = self._header()
        self.metadata = self._metadata(header.pop("__metadata__", {}))
        self.entries = {name: self._entry(name, entry) for name, entry in sorted(header.items())}
        self._require_whole()

    def tensor(self, name: str) -> Value:
        """A tensor, its bytes copied from the file."""
        e = self.entries[name]
        array = np.frombuffer(self.data, e.dtype.numpy, prod(e.shape), self.begin + e.start) if prod(e.shape) else \
            np.zeros(0, e.dtype.numpy)
        if e.dtype is dtypes.bool_ and (array.view(np.uint8) > 1).any():
            raise self._wrong(f"{name} has bools that are neither 0 nor 1")
        return from_numpy(array.reshape(e.shape))

    def _wrong(self, text: str) -> ArgumentError:
        return ArgumentError(f"load: a safetensors file is required; {self.path} is not: {text}")

    def _header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.data[:8], "little")
        if len(self.data) < 8 or not 2 <= length <= min(LONGEST_HEADER, len(self.data) - 8):
            raise self._wrong("its header does not fit into it")
        try:
            header = json.loads(self.data[8:8 + length].decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError) as fault:
            raise self._wrong(f"its header is no JSON: {fault}") from None
        if not isinstance(header, dict):
            raise self._wrong("its header is no dictionary")
        return 8 + length, cast("dict[str, Any]", header)

    def _metadata(self, found: object) -> dict[str, str]:
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in cast("dict[str, Any]", found).values()):
            raise self._wrong("its metadata are not texts by name")
        return cast("dict[str, str]", found)

    def _entry(self, name: str, found: object) -> Entry:
        if not isinstance(found, dict) or set(cast("dict[str, Any]", found)) != {"dtype", "shape", "data_offsets"}:
            raise self._wrong(f"{name} is not described by dtype, shape and data_offsets")
        entry = cast("dict[str, Any]", found)
        dtype, shape, offsets = NAMES.get(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
        if dtype is None:
            raise self._wrong(f"{name} has the dtype {str(entry['dtype'])[:20]!r}, which is none of {', '.join(NAMES)}")
        if not _sizes(shape) or len(shape) > MOST_AXES:
            raise self._wrong(f"{name} has no shape of whole numbers")
        if not _sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= len(self.data) - self.begin:
            raise self._wrong(f"{name} lies outside of it")
        if prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
            raise self._wrong(f"{name} is {dtype.short}{shape} but has {offsets[1] - offsets[0]} bytes")
        if not _representable(shape, dtype):
            raise self._wrong(f"{name} has sizes whose product does not fit into 63 bits: {shape}")
        return Entry(dtype, tuple(shape), offsets[0], offsets[1])

    def _require_whole(self) -> None:
        """Tensors lie side by side and fill the file: nothing is hidden, nothing shared."""
        at = 0
        for e in sorted(self.entries.values(), key=lambda e: (e.start, e.end)):
            if e.start != at:
                raise self._wrong("its tensors overlap or leave gaps")
            at = e.end
        if at != len(self.data) - self.begin:
            raise self._wrong("it goes on after its tensors")


def _sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 48 for n in cast("list[object]", value))


def _representable(shape: Sequence[Size], dtype: DType) -> bool:
    """Whether an array can have a shape: NumPy's bound, which counts axes of size 0 as one."""
    return prod(max(1, n) for n in shape if isinstance(n, int)) * dtype.itemsize <= sys.maxsize


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a name stands there twice")
    return dict(pairs)


@contextmanager
def reading(path: Path) -> Generator[BufferedReader]:
    """A regular file, open while the block runs; a pipe or a device is an OSError and waits for nobody."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        yield file


@contextmanager
def opened(path: Path) -> Generator[File]:
    """A safetensors file, mapped into memory while the block runs."""
    try:
        with reading(path) as file:
            empty = os.fstat(file.fileno()).st_size == 0
            data = b"" if empty else mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as fault:
        raise DeviceError(f"load: a file that can be read is required; {path}: "
                          f"{getattr(fault, 'strerror', None) or fault}") from None
    yield File(path, data)


@contextmanager
def replacing(path: Path, operation: str = "save", mode: int = 0o666) -> Generator[Path]:
    """A new file in the same folder, to be written in the block; after it, it takes the place of `path` at once.

    It has the mode of the file that was there; a link there is replaced, not followed.  Raises DeviceError for a
    path that is, or leads to, something else than a regular file, such as a device, a pipe or a folder.
    """
    mode = replaceable(path, operation, mode)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:SHOWN]}.", dir=path.parent)
        os.close(handle)
    except OSError as fault:
        raise DeviceError(f"{operation}: a folder that can be written is required; {path}: {fault.strerror}") from None
    made = Path(name)
    try:
        yield made
        with open(made, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(made, mode)
        os.replace(made, path)
        _sync_folder(path.parent)
    except OSError as fault:
        if isinstance(fault, Error):
            raise
        raise DeviceError(f"{operation}: a file that can be written, with room, is required; {path}: "
                          f"{fault.strerror or fault}") from None
    finally:
        made.unlink(missing_ok=True)


def replaceable(path: Path, operation: str, mode: int = 0o666) -> int:
    """The mode of a file that takes a path's place: that of the file there, or a new one's.

    Who may read the old file may also run the new one, where `mode` says that it is to be run.  Raises DeviceError
    for what is no regular file, and for a name that no file can have.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is a folder" if stat.S_ISDIR(status.st_mode) else "it is another kind of file")
    except FileNotFoundError:  # nothing is there, or a link that leads to nothing
        return mode & ~_umask()
    except (OSError, ValueError) as fault:
        raise DeviceError(f"{operation}: a regular file, or the name of a new one, is required; got "
                          f"{os.fspath(path)!r}: {getattr(fault, 'strerror', None) or fault}") from None
    return status.st_mode & 0o777 | (status.st_mode & 0o444) >> 2 & mode


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
