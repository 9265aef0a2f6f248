"""DLPack both ways: with NumPy, with libraries that have the first form of the protocol, and with hostile ones."""

from __future__ import annotations

import copy
import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.base.dtypes import ALL, STORAGE, DType
from nacre.runtime import dlpack
from nacre.runtime.buffer import statistics


class Exporter:
    """A library that exports a tensor's memory in the newest form of the protocol."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **request: Any) -> Any:
        return self.x.__dlpack__(**request)


class OldExporter(Exporter):
    """One that has only the first form."""

    def __dlpack__(self) -> Any:
        return self.x.__dlpack__()


class Described(Exporter):
    """One whose description of its memory is changed before it is sealed."""

    def __init__(self, versioned: bool = True, major: int = 1, flags: int = 0, **changes: Any) -> None:
        self.memory = (ctypes.c_float * 6)(*range(6))
        self.freed = 0
        self.shape, self.strides = (ctypes.c_int64 * 2)(2, 3), (ctypes.c_int64 * 2)(3, 1)
        self.description = (dlpack.Versioned if versioned else dlpack.Unversioned)()
        tensor = self.description.tensor
        tensor.data = ctypes.addressof(self.memory)
        tensor.device_type, tensor.ndim, tensor.code, tensor.bits, tensor.lanes = 1, 2, 2, 32, 1
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for name, value in changes.items():
            if name in ("shape", "strides"):
                value = ctypes.cast((ctypes.c_int64 * len(value))(*value), ctypes.POINTER(ctypes.c_int64))
            setattr(tensor, name, value)
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.free)
        self.description.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        if versioned:
            self.description.major, self.description.flags = major, flags
        self.name = dlpack.NAMES[0 if versioned else 1]

    def free(self, _: int) -> None:
        self.freed += 1

    def __dlpack__(self, **request: Any) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self.description), self.name, None)


SHAPES: list[tuple[int, ...]] = [(), (0, 3), (2, 3), (1,)]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_goes_round_both_ways(dtype: Any) -> None:
    for shape in SHAPES:
        x = nc.ones(shape, dtype=dtype)
        for kind in (Exporter, OldExporter):
            y = nc.from_dlpack(kind(x))
            assert y.type is x.type and np.array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_storage_dtypes_go_round(dtype: DType) -> None:
    codes = np.arange(1 << dtype.bits, dtype=np.uint8).reshape(2, -1)
    x = nc.asarray(codes.view(dtype.numpy))
    for view in (lambda v: v, lambda v: v.T, lambda v: v[:, ::2], lambda v: v[1, :1]):
        y = nc.from_dlpack(Exporter(view(x)))
        assert y.dtype is dtype and np.array_equal(y.numpy().view(np.uint8), view(codes))
    if dtype.bits == 8:
        assert np.array_equal(nc.from_dlpack(OldExporter(x)).numpy().view(np.uint8), codes)
        return
    for request in ({}, {"max_version": (1, 0)}):
        with pytest.raises(nc.ExchangeError, match=f"padded elements of {dtype.bits} bits need version 1.1 of DLPack"):
            x.__dlpack__(**request)
    found = Described(flags=dlpack.PADDED, code=0 if dtype.is_signed else 1, bits=dtype.bits)
    if dtype.python is int:
        assert nc.from_dlpack(found).dtype is dtype


@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "float32", "float64"])
def test_numpy_reads_the_memory_of_tensors_and_cannot_write_there(name: str) -> None:
    for shape in SHAPES:
        x = nc.ones(shape, dtype=name)
        array = np.from_dlpack(x)
        assert array.dtype == x.numpy().dtype and np.array_equal(array, x.numpy())
        assert array.flags.writeable is (array.size < 2)  # single numbers are copied
        if array.size > 1:
            assert np.shares_memory(array, x.numpy())
        if array.size:
            assert np.shares_memory(np.from_dlpack(x, copy=False), x.numpy())
            assert not np.shares_memory(np.from_dlpack(OldExporter(x)), x.numpy())


def test_views_keep_their_strides() -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = nc.tensor(a)
    for view in (lambda v: v[:, ::2], lambda v: v[1], lambda v: v[:, 1:, 3]):
        assert np.array_equal(np.from_dlpack(view(x)), view(a))
        assert nc.from_dlpack(view(a)).tolist() == view(a).tolist()
    for array in (a[::-1], a[:, ::-2, ::-1], a.T, np.broadcast_to(np.float32(3), (2, 2)), a[:, :0]):
        found = nc.from_dlpack(array)
        assert found.tolist() == array.tolist() and (found + 1).tolist() == (array + 1).tolist()
        assert np.array_equal(np.from_dlpack(found), array)
    assert np.array_equal(np.from_dlpack(nc.flip(x, axis=0)), a[::-1])


def test_an_import_is_borrowed_and_a_copy_is_not() -> None:
    a = np.zeros(3)
    shared, copied = nc.from_dlpack(a), nc.from_dlpack(a, copy=True)
    never = nc.from_dlpack(a, copy=False, device="cpu")
    a[1] = 5.0
    assert shared.tolist() == never.tolist() == [0.0, 5.0, 0.0] and copied.tolist() == [0.0, 0.0, 0.0]
    assert nc.asarray(shared, copy=True).content.owner is nc.tensor(shared).content.owner is None
    assert copy.deepcopy(shared).content.owner is None
    a.flags.writeable = False
    assert nc.from_dlpack(a).content.readonly


def test_requests_of_exports() -> None:
    x = nc.tensor([1.0, 2.0])
    assert x.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(x.__dlpack__()) and '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    for version in ((1, 0), (1, 3), (2, 0)):
        assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=version, dl_device=(1, 0)))
    written = np.from_dlpack(x, copy=True)
    written[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    for request, kind, words in (
        ({"stream": 1}, nc.ArgumentError, "the CPU has no streams"),
        ({"dl_device": (2, 0)}, BufferError, r"dl_device must be None or \(1, 0\)"),
        ({"copy": False}, nc.ExchangeError, "needs version 1.0 of DLPack"),
        ({"max_version": 1}, nc.ArgumentError, "max_version must be a major and a minor version"),
    ):
        with pytest.raises(kind, match=words):
            x.__dlpack__(**request)


def test_gradients_and_traced_tensors_are_not_exported() -> None:
    for x in (nc.tensor([1.0]).requires_grad_(), nn.Parameter([1.0]), nn.Parameter([1.0]) * 2):
        with pytest.raises(nc.GradientError, match=r"record no gradient.*write x.detach\(\)"):
            np.from_dlpack(x)
        assert np.from_dlpack(x.detach()).shape == (1,)
        with nc.no_grad():
            assert np.from_dlpack(x).shape == nc.from_dlpack(x).shape
        with pytest.raises(nc.GradientError):
            nc.from_dlpack(x)
    with pytest.raises(nc.TraceError):
        nc.jit(lambda x: np.from_dlpack(x))(nc.ones(2))


@pytest.mark.parametrize(("changes", "kind", "words"), [
    ({"device_type": 2}, nc.ArgumentError, 'memory must be on "cpu"; got cuda:0'),
    ({"device_type": 99}, nc.ArgumentError, "device type 99"),
    ({"lanes": 4}, nc.ArgumentError, "one lane; got 4 lanes"),
    ({"bits": 4, "code": 0}, nc.DTypeError, "got int of 4 bits; export them as uint8"),
    ({"bits": 8, "code": 8}, nc.DTypeError, "got float8_e4m3 of 8 bits"),
    ({"bits": 64, "code": 3}, nc.DTypeError, "opaque handle"),
    ({"code": 77}, nc.DTypeError, "type code 77"),
    ({"ndim": -1}, nc.ArgumentError, "0 to 64 axes; got -1"),
    ({"ndim": 10**6}, nc.ArgumentError, "0 to 64 axes"),
    ({"shape": (-1, 3)}, nc.ArgumentError, "sizes must be at least 0"),
    ({"shape": (2**62, 2**62), "strides": (2**62, 1)}, nc.ArgumentError, "address space"),
    ({"strides": (-(2**61), 1)}, nc.ArgumentError, "address space"),
    ({"data": None}, nc.ArgumentError, "address space"),
    ({"byte_offset": 2**63}, nc.ArgumentError, "address space"),
    ({"major": 2}, nc.ArgumentError, "the version of DLPack must be 1"),
])  # fmt: skip
def test_hostile_descriptions_are_refused(changes: dict[str, Any], kind: type[Exception], words: str) -> None:
    made = Described(**changes)
    with pytest.raises(kind, match=words):
        nc.from_dlpack(made)
    assert made.freed in (0, 1)


@pytest.mark.parametrize("versioned", [True, False])
def test_the_owner_frees_once_when_the_last_view_is_gone(versioned: bool) -> None:
    made = Described(versioned)
    x = nc.from_dlpack(made)
    row = x[1]
    del x
    gc.collect()
    assert row.tolist() == [3.0, 4.0, 5.0] and made.freed == 0
    del row
    gc.collect()
    assert made.freed == 1
    made = Described(versioned, ndim=2, shape=(0, 3))
    assert nc.from_dlpack(made).shape == (0, 3) and made.freed == 1


def test_elements_that_are_not_aligned_are_copied() -> None:
    made = Described(byte_offset=2, shape=(1, 3))
    assert nc.from_dlpack(made).content.owner is None and made.freed == 1
    with pytest.raises(nc.ExchangeError, match="must be aligned to 4 bytes"):
        nc.from_dlpack(Described(byte_offset=2, shape=(1, 3)), copy=False)


def test_objects_that_are_no_exporters() -> None:
    class Twice(Exporter):
        """Returns one capsule again and again."""

        def __dlpack__(self, **request: Any) -> Any:
            return self.x

    class Nowhere(Exporter):
        """Has no device."""

        def __dlpack_device__(self) -> Any:
            return None

    class Far(Exporter):
        """Is on another device, and copies to the CPU on request."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

        def __dlpack__(self, *, dl_device: Any = None, **request: Any) -> Any:
            assert dl_device == (1, 0)
            return self.x.__dlpack__(**request)

    x = nc.tensor([1.0, 2.0])
    twice = Twice(x.__dlpack__(max_version=(1, 0)))
    assert nc.from_dlpack(twice).tolist() == [1.0, 2.0]
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: nc.from_dlpack(twice), nc.KindError, 'got a capsule named "used_dltensor_versioned"'),
        (lambda: nc.from_dlpack(Twice(None)), nc.KindError, "got a NoneType"),
        (lambda: nc.from_dlpack(Nowhere(x)), nc.KindError, "__dlpack_device__ must return two whole numbers"),
        (lambda: nc.from_dlpack(np.array("a")), nc.ExchangeError, "the other library must export the object"),
        (lambda: nc.from_dlpack([1.0]), nc.KindError, "must have __dlpack__"),
        (lambda: nc.from_dlpack(Far(x)), nc.ArgumentError, 'got cuda:1; pass device="cpu"'),
        (lambda: nc.from_dlpack(x, device="cuda"), nc.ArgumentError, 'device must be "cpu"'),
        (lambda: nc.from_dlpack(x, copy="no"), nc.KindError, "copy must be True, False or None"),  # type: ignore[arg-type]
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
    assert nc.from_dlpack(Far(x), device="cpu").tolist() == [1.0, 2.0]


def test_exports_leave_nothing_behind() -> None:
    x = nc.ones(100)

    def rounds(count: int) -> int:
        for _ in range(count):
            x.__dlpack__(max_version=(1, 0))
            x.__dlpack__()
            nc.from_dlpack(Exporter(x))
        gc.collect()
        return sum(isinstance(held, dlpack.Manager) for held in gc.get_objects())

    assert rounds(10) == 0
    before = statistics()
    assert rounds(300) == 0
    assert statistics().buffers == before.buffers


@pytest.mark.slow
def test_a_hundred_thousand_exports_need_no_memory() -> None:
    x = nc.ones(100)
    sizes: list[int] = []
    for _ in range(2):
        for _ in range(50_000):
            x.__dlpack__(max_version=(1, 0))
            x.__dlpack__()
        with open("/proc/self/statm") as file:
            sizes.append(int(file.read().split()[1]))
    assert sizes[1] - sizes[0] < 256  # pages


def test_a_capsule_that_is_dropped_while_an_error_is_raised_is_freed() -> None:
    x = nc.ones(3)
    before = statistics().buffers

    def take(capsule: Any, number: float) -> None: ...

    with pytest.raises(ZeroDivisionError):
        take(x.__dlpack__(), 1 / (x.size - 3))
    gc.collect()
    assert statistics().buffers == before
