"""What the array API standard asks of dtypes, devices, copies and the namespace itself."""

from __future__ import annotations

import array
import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.dtypes import ALL, promote

KINDS: dict[str, set[nc.DType]] = {
    "bool": {nc.bool},
    "signed integer": {nc.int8, nc.int16, nc.int32, nc.int64},
    "unsigned integer": {nc.uint8, nc.uint16, nc.uint32, nc.uint64},
    "real floating": {nc.float16, nc.bfloat16, nc.float32, nc.float64},
    "complex floating": {nc.complex64, nc.complex128},
}
KINDS["integral"] = KINDS["signed integer"] | KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] | KINDS["real floating"] | KINDS["complex floating"]


@pytest.mark.parametrize("kind", KINDS)
def test_isdtype(kind: str) -> None:
    assert {d for d in ALL if nc.isdtype(d, kind)} == KINDS[kind]
    assert {d for d in ALL if nc.isdtype(d, ("bool", kind, nc.int8))} == KINDS[kind] | {nc.bool, nc.int8}
    assert not any(nc.isdtype(d, ()) for d in ALL)


def test_isdtype_of_a_dtype() -> None:
    assert all(nc.isdtype(a, b) == (a is b) for a, b in product(ALL, ALL))
    with pytest.raises(nc.ArgumentError, match="isdtype: kind must be a dtype, or one of bool, signed integer"):
        nc.isdtype(nc.int8, "integer")


def test_can_cast_follows_promotion() -> None:
    for a, b in product(ALL, ALL):
        try:
            wanted = promote(a, b) is b
        except nc.DTypeError:
            wanted = False
        assert nc.can_cast(a, b) == nc.can_cast(nc.zeros(2, a), b) == wanted
        if wanted and nc.bfloat16 not in (a, b):
            assert np.can_cast(a.numpy, b.numpy)
    with pytest.raises(nc.DTypeError, match="dtype: the value must be one of"):
        nc.can_cast(1, nc.int8)


def test_limits_of_dtypes() -> None:
    for d in KINDS["integral"]:
        mine, theirs = nc.iinfo(d), np.iinfo(d.numpy)
        assert (mine.bits, mine.min, mine.max, mine.dtype) == (theirs.bits, theirs.min, theirs.max, d)
        assert type(mine.max) is int and nc.iinfo(nc.zeros(1, d)).max == theirs.max
    for d in (nc.float16, nc.float32, nc.float64):
        mine, theirs = nc.finfo(nc.zeros((), d)), np.finfo(d.numpy)
        assert (mine.bits, mine.dtype) == (theirs.bits, d)
        for name in ("eps", "max", "min", "smallest_normal"):
            assert type(getattr(mine, name)) is float and getattr(mine, name) == getattr(theirs, name)
    with pytest.raises(nc.ArgumentError, match="result_type: at least one"):
        nc.result_type()


CREATION: dict[str, Any] = {
    "arange": lambda **more: nc.arange(3, **more),
    "asarray": lambda **more: nc.asarray([1.0, 2.0], **more),
    "astype": lambda **more: nc.astype([1.0, 2.0], nc.int8, **more),
    "empty": lambda **more: nc.empty((2, 3), **more),
    "empty_like": lambda **more: nc.empty_like([1, 2], **more),
    "eye": lambda **more: nc.eye(2, **more),
    "full": lambda **more: nc.full(2, 3, **more),
    "full_like": lambda **more: nc.full_like([1, 2], 3, **more),
    "linspace": lambda **more: nc.linspace(0, 1, 3, **more),
    "ones": lambda **more: nc.ones(2, **more),
    "ones_like": lambda **more: nc.ones_like([1, 2], **more),
    "zeros": lambda **more: nc.zeros(2, **more),
    "zeros_like": lambda **more: nc.zeros_like([1, 2], **more),
}


@pytest.mark.parametrize("name", CREATION)
def test_the_one_device(name: str) -> None:
    make = CREATION[name]
    plain = make()
    for device in ("cpu", None, plain.device):
        made = make(device=device)
        assert made.type is plain.type and made.tolist() == plain.tolist() and made.device == "cpu"
    with pytest.raises(nc.ArgumentError, match=f"{name}: device must be \"cpu\" or None; got 'cuda'"):
        make(device="cuda")


def test_to_device() -> None:
    x = nc.ones(2)
    assert x.to_device("cpu") is x and x.to_device(x.device, stream=None) is x
    with pytest.raises(nc.ArgumentError, match="to_device: device must be"):
        x.to_device("gpu")
    with pytest.raises(nc.ArgumentError, match="to_device: the CPU has no streams"):
        x.to_device("cpu", stream=1)


def test_empty_tensors_have_defined_numbers() -> None:
    assert nc.empty((2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]] and nc.empty(3).dtype is nc.float32
    assert nc.empty_like(nc.ones(2, nc.int8)).type is nc.zeros(2, nc.int8).type


def test_copies() -> None:
    x = nc.ones(3)
    assert nc.astype(x, nc.float32, copy=False) is x and x.astype(nc.float32, copy=False) is x
    assert nc.astype(x, nc.float32) is not x and x.astype(nc.int8, copy=False).dtype is nc.int8
    assert nc.asarray(x) is x and nc.asarray(x, copy=False) is x and nc.asarray(x, copy=True) is not x
    array = np.ones(2)
    shared, own = nc.asarray(array, copy=False), nc.asarray(array)
    array[0] = 5
    assert shared.tolist() == [5.0, 1.0] and own.tolist() == [1.0, 1.0]
    numbers = (True, 0, 0.0, 0j, [0], [[1.0]], np.float32(1), np.float64(1))
    for obj, more in ((x, {"dtype": nc.int8}), (array, {"dtype": nc.int8}), *((given, {}) for given in numbers)):
        with pytest.raises(ValueError, match=r"asarray: .* must be copied to become"):
            nc.asarray(obj, copy=False, **more)


@pytest.mark.parametrize("copy", [None, True, False])
def test_reshape_with_copy(copy: bool | None) -> None:
    x = nc.arange(6)
    y = nc.reshape(x, (2, 3), copy=copy)
    y[0, 0] = 9
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and y.tolist() == [[9, 1, 2], [3, 4, 5]]
    assert nc.jit(lambda v: nc.reshape(v, (2, 3), copy=copy))(x).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert nc.reshape(nc.zeros((2, 0)), (0,), copy=copy).shape == (0,)


def test_reshape_without_the_copy_that_it_needs() -> None:
    x = nc.arange(6).reshape(2, 3)
    assert nc.reshape(x.T, (3, 2), copy=False).tolist() == x.T.tolist()
    with pytest.raises(ValueError, match=r"reshape: the layout of x, of shape \(3, 2\), needs a copy"):
        nc.reshape(x.T, 6, copy=False)


def test_results_that_are_tuples() -> None:
    x = nc.ones((2, 3))
    assert all(isinstance(found, tuple) for found in (
        nc.broadcast_arrays(x, 1.0), nc.meshgrid([1, 2], [3]), nc.unstack(x), nc.nonzero(x), nc.broadcast_shapes(2),
    ))  # fmt: skip


@pytest.mark.parametrize("shapes", [(), ((),), ((2, 1), (3,)), ((4, 1, 5), (1, 3, 1), (5,)), ((0, 1), (1, 3)), (2, 1)])
def test_broadcast_shapes(shapes: Any) -> None:
    assert nc.broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match="broadcast_shapes: sizes must be equal or 1 in each axis"):
        nc.broadcast_shapes((2,), (3,))
    with pytest.raises(nc.KindError, match="broadcast_shapes: sizes must be integers"):
        nc.broadcast_shapes((2.5,))  # type: ignore[arg-type]


def test_capabilities_are_those_of_the_place_of_the_call() -> None:
    def asked(x: Any) -> Any:
        """x, once the capabilities are noted."""
        found.append(set(nc.__array_namespace_info__().capabilities().values()) - {32})
        return nc.sum(x * x)

    found: list[Any] = []
    x = nc.ones((2, 3))
    for f in (asked, nc.grad(asked), nc.jit(asked), nc.jit(nc.grad(asked)), nc.vmap(asked)):
        f(x)
    nc.jvp(asked, (x,), (x,))
    assert found == [{True}, {True}, {False}, {False}, {False}, {True}]


def test_the_namespace_describes_itself() -> None:
    x, info = nc.ones(2), nc.__array_namespace_info__()
    for version in (None, "2022.12", nc.__array_api_version__):
        assert x.__array_namespace__(api_version=version) is nc
    with pytest.raises(ValueError, match=r"api_version must be one of 2021\.12"):
        x.__array_namespace__(api_version="2019.12")
    assert info.default_device() in info.devices() and nc.ones(2, device=info.default_device()).device == "cpu"
    assert info.capabilities()["boolean indexing"] and info.capabilities()["data-dependent shapes"]
    standard = (KINDS["numeric"] | {nc.bool}) - {nc.float16, nc.bfloat16}
    assert set(info.dtypes().values()) == standard and all(getattr(nc, n) is d for n, d in info.dtypes().items())
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    found = info.default_dtypes(device="cpu")
    assert found["real floating"] is nc.tensor(1.0).dtype and found["integral"] is nc.tensor(1).dtype
    assert found["indexing"] is nc.argmax([1, 2]).dtype and found["complex floating"] is nc.tensor(1j).dtype
    for call in (lambda: info.dtypes(kind="whole"), lambda: info.dtypes(device="gpu")):
        with pytest.raises(nc.ArgumentError, match="dtypes: "):
            call()
    shape = (1,) * info.capabilities()["max dimensions"]
    assert (nc.ones(shape) + 1).shape == shape


def test_buffers_become_tensors() -> None:
    held = array.array("f", [1.0, 2.0, 3.0])
    assert nc.asarray(held).tolist() == [1.0, 2.0, 3.0] and nc.asarray(held).dtype is nc.float32
    assert nc.asarray(memoryview(held)).tolist() == [1.0, 2.0, 3.0]
    assert nc.asarray(memoryview(np.arange(6, dtype=np.int16).reshape(2, 3))).type is nc.zeros((2, 3), nc.int16).type


def test_a_mask_without_axes_adds_one() -> None:
    for x, mask in (
        (np.float32(3), True),
        (np.float32(3), False),
        (np.arange(6).reshape(2, 3), True),
        (np.ones(2), False),
    ):
        wanted = np.asarray(x)[np.array(mask)]
        found = nc.tensor(x)[nc.tensor(mask)]
        assert found.shape == wanted.shape and found.tolist() == wanted.tolist()
        assert nc.tensor(x)[np.array(mask)].tolist() == wanted.tolist()
    y = nc.tensor(3.0)
    y[nc.tensor(True)] = 4.0
    assert y.item() == 4.0


@pytest.mark.parametrize(
    "mask", [True, False, np.True_, np.bool_(False), np.asarray(True), np.asarray(False)], ids=repr
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_a_single_bool_selects_and_stores_as_in_numpy(mask: Any, shape: tuple[int, ...]) -> None:
    a = np.arange(float(math.prod(shape))).reshape(shape)
    for key in (mask, nc.asarray(mask)):
        assert nc.asarray(a)[key].tolist() == a[mask].tolist()
        for value in (7.0, np.full((int(mask), *shape), 5.0)):
            x, wanted = nc.asarray(a), a.copy()
            x[key] = value
            wanted[mask] = value
            assert x.tolist() == wanted.tolist()
    with pytest.raises(nc.ShapeError, match=r"must broadcast to shape"):
        nc.index_update(a, mask, np.ones((4, *shape)))


def test_a_single_bool_in_a_key_of_several_parts_is_refused() -> None:
    with pytest.raises(nc.ShapeError, match=r"write x\[mask\] alone"):
        nc.ones(2)[0, True]


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize(("shape", "value"), [
    ((), [4.0]), ((3,), [1.0, 2.0, 3.0]), ((3,), [[1.0, 2.0, 3.0]]), ((2, 2), [[[1.0, 2.0], [3.0, 4.0]]]),
    ((2, 2), 7.0),
])  # fmt: skip
def test_a_mask_without_axes_takes_values_of_the_shape_that_it_selects(
    mask: bool, shape: tuple[int, ...], value: Any
) -> None:
    x, expected = nc.zeros(shape), np.zeros(shape, np.float32)
    x[nc.tensor(mask)] = nc.tensor(value)
    if mask:
        expected[np.array(mask)] = value
    assert x.shape == shape and x.tolist() == expected.tolist()
