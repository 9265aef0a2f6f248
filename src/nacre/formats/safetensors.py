"""Tensors by name as safetensors files: written atomically, read through a memory map, and checked."""

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
from nacre.base.errors import (
    ArgumentError,
    DTypeError,
    Error,
    KindError,
    ShapeError,
    UnexpectedFolder,
    file_error,
    reason,
)
from nacre.base.records import dataclass
from nacre.base.types import bytes_of
from nacre.formats.npy import MAGIC
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.trace.value import Value

__all__ = [
    "load",
    "save",
]

NAMES = {
    "BOOL": dtypes.bool_, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
    "C64": dtypes.complex64,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz, "F8_E5M2": dtypes.float8_e5m2,
    "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz, "F8_E8M0": dtypes.float8_e8m0fnu, "F4": dtypes.float4_e2m1fn,
}  # fmt: skip
PACKED = dtypes.float4_e2m1fn  # the only dtype with elements of less than a byte
LONGEST_HEADER = 100_000_000  # bytes, as in the format's own library
MOST_AXES = 64
HOLDING = ("model.safetensors", "weights.safetensors")  # the files of a folder that a message suggests
ZIPPED, PICKLED = b"PK\x03\x04", b"\x80"  # first bytes of zip files and pickles
LEADING = 256  # bytes that contain the name of a zip file's first file
SHOWN_BYTES = 8  # of another file that a message shows
SHOWN = 32  # characters of the old file's name in the temporary name of the new one


@dataclass(frozen=True)
class Entry:
    """The place of a tensor in a file: its bytes from `start` on, after the header."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


def save(tensors: Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors by name, such as a state dict, to a safetensors file; an interrupted write leaves the old file.

    `tensors` maps names to tensors, arrays or variables of any shape.  The same tensors and metadata give the same
    bytes, in any order.

    The new file has the mode of the old one.  A symbolic link is replaced, and its target stays.  Raises ArgumentError
    for a dtype that the format does not have, and DTypeError for a value that is not a tensor, such as a nested dict.
    Raises DeviceError if the file cannot be written, or is a device, pipe or folder.

    >>> nc.save(nn.Linear(3, 2).state_dict(), "linear.safetensors")
    >>> {k: v.shape for k, v in nc.load("linear.safetensors").items()}
    {'bias': (2,), 'weight': (2, 3)}
    """
    if hasattr(tensors, "state_dict"):
        raise KindError(
            f"save: tensors must be a mapping; got a {type(tensors).__name__}; write save(x.state_dict(), path)"
        )
    arrays: dict[str, tuple[str, np.ndarray]] = {}
    for name, tensor in cast("Mapping[object, Any]", tensors).items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ArgumentError(f"save: names must be strings other than __metadata__; got {name!r}")
        x = _tensor(name, tensor)
        if not _representable(x.type.shape, x.type.dtype):
            raise ArgumentError(f"save: the product of sizes must fit into 63 bits; {name!r} is {x.type}")
        if x.type.dtype not in NAMES.values():
            raise ArgumentError(
                f"save: the dtype must be one of the format; got {x.type} for {name!r}; write {_remedy(x.type.dtype)}"
            )
        arrays[name] = _in_file(name, x)
    with replacing(Path(path)) as made:
        try:
            specs = {
                name: TensorSpec(dtype=spelling, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
                for name, (spelling, a) in arrays.items()
            }
            serialize_file(specs, made, metadata=dict(metadata) if metadata else None)
        except UnicodeEncodeError as fault:
            raise ArgumentError(f"save: names must be valid UTF-8; {fault}") from None
        except SafetensorError as fault:
            if "os error" in str(fault):
                raise OSError(str(fault)) from None
            raise ArgumentError(f"save: safetensors cannot hold these tensors; {fault}") from None
        if metadata:
            _sort_metadata(made)


def _remedy(dtype: DType) -> str:
    """What to write for a dtype that the format does not have."""
    if dtype.is_storage:
        pairs = f"x.reshape((*x.shape[:-1], -1, {8 // dtype.bits}))"
        return f"y = nacre.bitcast({pairs}, nacre.uint8), and nacre.bitcast(y, nacre.{dtype.name}) after loading"
    return "nacre.view_as_real(x), and nacre.view_as_complex(x) after loading, or x.astype(nacre.complex64)"


def _in_file(name: str, x: Value) -> tuple[str, np.ndarray]:
    """A dtype as the format's library spells it, and the elements; two of float4 are one byte, the first one low.

    Raises ArgumentError for float4 with a last axis of an odd size.
    """
    array = np.asarray(to_numpy(x), order="C")
    if x.type.dtype is not PACKED:
        return array.dtype.name, array
    if not array.shape or array.shape[-1] % 2:
        raise ArgumentError(
            f"save: the last axis must have an even size, because two elements are one byte; got {x.type} for "
            f"{name!r}; pad it, or write x.astype(nacre.float8_e4m3fn)"
        )
    codes = array.view(np.uint8) & 15
    return f"{array.dtype.name}_x2", np.ascontiguousarray(codes[..., ::2] | codes[..., 1::2] << 4)


def _unpacked(packed: np.ndarray) -> np.ndarray:
    """The elements of float4 in bytes of a file."""
    codes = np.stack([packed & 15, packed >> 4], -1)
    return codes.reshape(-1).view(PACKED.numpy)


def _bytes(count: Size, dtype: DType) -> Size:
    """Bytes of elements in a file."""
    return (count + 1) // 2 if dtype is PACKED else bytes_of(count, dtype)


def _tensor(name: str, value: Any) -> Value:
    """The tensor of a value to save.  Raises DTypeError or ShapeError, with the name, for a value that is not one."""
    kind = type(value).__name__
    if isinstance(value, Mapping):
        raise DTypeError(
            f"save: each name must have a tensor; got a {kind} for {name!r}; join the names of nested "
            "dicts: {f'{a}.{b}': x for a, d in tensors.items() for b, x in d.items()}"
        )
    try:
        return as_tensor(value)
    except (DTypeError, ShapeError) as fault:
        cause = str(fault).removeprefix("tensor: ")
        raise type(fault)(f"save: each name must have a tensor; {name!r} has another value: {cause}") from None


def _sort_metadata(path: Path) -> None:
    """Sort the metadata of a file by name: the format's library writes them in random order."""
    with open(path, "r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        listed = json.loads(file.read(length))
        listed["__metadata__"] = dict(sorted(listed["__metadata__"].items()))
        file.seek(8)
        file.write(json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode().ljust(length))


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file, by name.

    Returns a dict of tensors.  Raises ArgumentError, with the reason, for a file in which any byte is wrong.  Raises
    DeviceError if it cannot be read; it is also a FileNotFoundError where the file is missing.  Nothing in a file is
    run.

    >>> nc.save({"scale": nc.tensor([1.0, 2.0])}, "scale.safetensors")
    >>> nc.load("scale.safetensors")
    {'scale': Tensor([1., 2.], f32[2])}
    """
    with opened(Path(path)) as file:
        return {name: cast("Tensor", file.tensor(name)) for name in file.entries}


class File:
    """An open safetensors file: its header, and the tensors that are requested."""

    def __init__(self, path: Path, data: mmap | bytes) -> None:
        self.path, self.data = path, data
        self.begin, header = self._header()
        self.metadata = self._metadata(header.pop("__metadata__", {}))
        self.entries = {name: self._entry(name, entry) for name, entry in sorted(header.items())}
        self._require_whole()

    def tensor(self, name: str) -> Value:
        """A tensor, its bytes copied from the file."""
        e = self.entries[name]
        kind, count = (np.uint8, e.end - e.start) if e.dtype is PACKED else (e.dtype.numpy, prod(e.shape))
        array = np.frombuffer(self.data, kind, count, self.begin + e.start) if prod(e.shape) else np.zeros(0, kind)
        array = _unpacked(array) if e.dtype is PACKED else array
        if e.dtype is dtypes.bool_ and (array.view(np.uint8) > 1).any():
            raise self._wrong(f"{name} has bools that are neither 0 nor 1")
        return from_numpy(array.reshape(e.shape))

    def _wrong(self, text: str) -> ArgumentError:
        return ArgumentError(f"load: the file must be a safetensors file; {self.path} is not: {text}")

    def _advice(self) -> str:
        """The advice for a file of another format, if it is a known one."""
        first = self.data[:LEADING]
        if first.startswith(MAGIC):
            return "; read it with nc.asarray(np.load(path))"
        if first.startswith(PICKLED) or (first.startswith(ZIPPED) and b"data.pkl" in first):
            return (
                "; torch.save writes such pickles, which can run code; convert it where torch is installed: "
                "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)"
            )
        if first.startswith(ZIPPED) and b".npy" in first:
            return "; read it with {name: nc.asarray(x) for name, x in np.load(path).items()}"
        return ""

    def _header(self) -> tuple[int, dict[str, Any]]:
        length = int.from_bytes(self.data[:8], "little")
        if len(self.data) < 8 or not 2 <= length <= min(LONGEST_HEADER, len(self.data) - 8):
            first = self.data[:SHOWN_BYTES]
            raise self._wrong(f"its header is longer than the file, which begins with {first!r}{self._advice()}")
        try:
            header = json.loads(self.data[8 : 8 + length].decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError) as fault:
            raise self._wrong(f"its header is not JSON: {fault}") from None
        if not isinstance(header, dict):
            raise self._wrong("its header is not a dictionary")
        return 8 + length, cast("dict[str, Any]", header)

    def _metadata(self, found: object) -> dict[str, str]:
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in cast("dict[str, Any]", found).values()):
            raise self._wrong("its metadata must be strings by name")
        return cast("dict[str, str]", found)

    def _entry(self, name: str, found: object) -> Entry:
        if not isinstance(found, dict) or set(cast("dict[str, Any]", found)) != {"dtype", "shape", "data_offsets"}:
            raise self._wrong(f"{name} must have dtype, shape and data_offsets")
        entry = cast("dict[str, Any]", found)
        dtype, shape, offsets = NAMES.get(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
        if dtype is None:
            raise self._wrong(f"{name} has the dtype {str(entry['dtype'])[:20]!r}; the dtypes are {', '.join(NAMES)}")
        if not _sizes(shape) or len(shape) > MOST_AXES:
            raise self._wrong(f"the shape of {name} must be a list of whole numbers")
        if not _sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= len(self.data) - self.begin:
            raise self._wrong(f"{name} lies outside of the file")
        if dtype is PACKED and prod(shape) % 2:
            raise self._wrong(f"{name} has an odd number of elements of 4 bits: {shape}")
        if _bytes(prod(shape), dtype) != offsets[1] - offsets[0]:
            raise self._wrong(f"{name} is {dtype.short}{shape} but has {offsets[1] - offsets[0]} bytes")
        if not _representable(shape, dtype):
            raise self._wrong(f"the product of the sizes of {name} does not fit into 63 bits: {shape}")
        return Entry(dtype, tuple(shape), offsets[0], offsets[1])

    def _require_whole(self) -> None:
        """Check that the tensors are adjacent and fill the file, so that nothing is hidden or shared."""
        at = 0
        for e in sorted(self.entries.values(), key=lambda e: (e.start, e.end)):
            if e.start != at:
                raise self._wrong("its tensors overlap or leave gaps")
            at = e.end
        if at != len(self.data) - self.begin:
            raise self._wrong("bytes follow after its tensors")


def _sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 48 for n in cast("list[object]", value))


def _representable(shape: Sequence[Size], dtype: DType) -> bool:
    """Whether an array can have a shape: NumPy's bound, which counts axes of size 0 as one."""
    return bytes_of(prod(max(1, n) for n in shape if isinstance(n, int)), dtype) <= sys.maxsize


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice in it")
    return dict(pairs)


@contextmanager
def reading(path: Path) -> Generator[BufferedReader]:
    """A regular file, open during the block; a pipe or a device raises OSError at once."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a regular file")
        yield file


@contextmanager
def opened(path: Path) -> Generator[File]:
    """A safetensors file, mapped into memory during the block."""
    try:
        with reading(path) as file:
            empty = os.fstat(file.fileno()).st_size == 0
            data = b"" if empty else mmap(file.fileno(), 0, access=ACCESS_READ)
    except IsADirectoryError:
        inside = next((path / name for name in HOLDING if (path / name).is_file()), None)
        advice = f"; pass {inside}" if inside is not None else ""
        raise UnexpectedFolder(f"load: cannot read {path}; it is a folder{advice}") from None
    except (OSError, ValueError) as fault:
        raise file_error(f"load: cannot read {path}; {reason(fault)}", fault) from None
    yield File(path, data)


@contextmanager
def replacing(path: Path, operation: str = "save", mode: int = 0o666) -> Generator[Path]:
    """A new file in the same folder, written in the block; afterwards it replaces `path` atomically.

    It has the mode of the old file.  A link is replaced, not followed.  Raises DeviceError for a path that is, or leads
    to, anything but a regular file, such as a device, a pipe or a folder.
    """
    mode = replaceable(path, operation, mode)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:SHOWN]}.", dir=path.parent)
        os.close(handle)
    except OSError as fault:
        raise file_error(f"{operation}: cannot write into the folder of {path}: {reason(fault)}", fault) from None
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
        raise file_error(f"{operation}: cannot write {path}: {reason(fault)}", fault) from None
    finally:
        made.unlink(missing_ok=True)


def replaceable(path: Path, operation: str, mode: int = 0o666) -> int:
    """The mode of the file that replaces a path: that of the old file, or that of a new one.

    If `mode` makes the file executable, everyone who may read the old file may run the new one.  Raises DeviceError for
    anything but a regular file, and for a name that no file can have.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise (
                IsADirectoryError("it is a folder")
                if stat.S_ISDIR(status.st_mode)
                else OSError("it is not a regular file")
            )
    except FileNotFoundError:  # there is no file, or a broken link
        return mode & ~_umask()
    except (OSError, ValueError) as fault:
        raise file_error(
            f"{operation}: the path must be a regular file or the name of a new one; got {os.fspath(path)!r}: "
            f"{reason(fault)}",
            fault,
        ) from None
    return status.st_mode & 0o777 | (status.st_mode & 0o444) >> 2 & mode


def _sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
