"""Parameters and sizes of operations from outside: values that == confuses are distinct, wrong ones are refused."""

from __future__ import annotations

import copy
import enum
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.ir.primitive import withdraw


def kind() -> Callable[..., Any]:
    """An operation whose result depends on the kind of its parameter."""

    def number(v: Any) -> float:
        v = v[0] if isinstance(v, tuple) else v
        assert type(v) in (bool, int, float)
        return 2 if isinstance(v, bool) else 3 if isinstance(v, int) else math.copysign(4, v)

    return nc.primitive(
        "outside_kind",
        element=lambda x, *, v: x * number(v),
        partials=[lambda y, x, *, v: number(v)],
        batch=lambda xs, axes, *, v: (xs[0] * number(v), axes[0]),
        version="1",
    )


ALIKE: list[tuple[list[Any], list[float]]] = [
    ([1, True, 1.0], [3, 2, 4]),
    ([0.0, -0.0, 0, False], [4, -4, 3, 2]),
    ([(1,), (True,), (1.0,), ((1,),)[0]], [3, 2, 4, 3]),
    ([math.nan, float("nan"), math.inf], [4, 4, 4]),
    ([np.float32(0.0), np.float64(-0.0), np.int8(0), np.bool_(True), np.float16(1)], [4, -4, 3, 2, 4]),
]


@pytest.mark.parametrize(("values", "wanted"), ALIKE)
def test_parameters_that_are_equal_but_differ_are_told_apart(values: list[Any], wanted: list[float]) -> None:
    f, x = kind(), nc.ones((2, 2))
    ways: list[Callable[[Any], Any]] = [
        lambda v: f(x, v=v),
        lambda v: nc.jit(lambda x: f(x, v=v))(x),
        lambda v: f(x.T, v=v),
        lambda v: nc.vmap(lambda x: f(x, v=v))(x),
        lambda v: nc.grad(lambda x: f(x, v=v).sum())(x),
        lambda v: nc.jvp(lambda x: f(x, v=v), (x,), (x,))[1],
        lambda v: backward(lambda x: f(x, v=v), x),
    ]
    for way in ways:
        for _ in range(3):
            assert [way(v)[0, 0].item() for v in values] == wanted
    both = nc.jit(lambda x: [f(x, v=v) for v in values])(x)  # equations of one graph are not merged
    assert [y[0, 0].item() for y in both] == wanted


def backward(f: Any, x: Any) -> Any:
    leaf = x.detach().requires_grad_()
    f(leaf).sum().backward()
    return leaf.grad


def test_saved_programs_keep_parameters(tmp_path: Any) -> None:
    f, x = kind(), nc.ones(2)
    values: list[Any] = [1, True, 1.0, -0.0, (False, 2)]
    nc.save_program(lambda x: [f(x, v=v) for v in values], tmp_path / "p.safetensors", x)
    loaded = nc.load_program(tmp_path / "p.safetensors")(x)
    assert [y[0].item() for y in loaded] == [3, 2, 4, -4, 2]


class Mode(enum.IntEnum):
    ONE = 1


BAD = [object(), lambda: 0, frozenset((1,)), np.ones(1), np.array(1), [1], {1: 2}, b"x", 1j, nc.ones(1), int, (1, [2])]


@pytest.mark.parametrize("value", BAD, ids=lambda value: type(value).__name__)
def test_parameters_of_other_kinds_are_refused(value: Any) -> None:
    with pytest.raises(nc.Error, match="outside_kind: parameters must be numbers, strings, dtypes or tuples; got v="):
        kind()(1.0, v=value)


def test_parameters_may_be_numbers_strings_dtypes_sizes_and_tuples() -> None:
    seen: list[Any] = []
    f = nc.primitive("outside_any", element=lambda x, *, v: seen.append(v) or x)
    given = [None, "text", nc.float32, nc.Dim("n"), (1, ("a", 2.0)), Mode.ONE, 1 << 70]
    for v in given:
        f(nc.ones(1), v=v)
    assert all(v in seen for v in given) and type(seen[-2]) is int


def test_rules_get_defaults() -> None:
    rules: list[Any] = []
    f = nc.primitive(
        "outside_default",
        result=lambda x, *, by=2.0: x,
        nest=lambda types, t, *, by: (
            f"kernel k(x: {types[0]}) -> (y: {t}):\n  for i in {t.shape[0]}:\n    y[i] = mul(x[i], {by}:f32)"
        ),
        transposes=[lambda g, x, *, by: rules.append(by) or g * by],
        batch=lambda xs, axes, **params: rules.append(params) or (xs[0] * params["by"], axes[0]),
    )
    x = nc.ones(2)
    assert f(x).tolist() == [2, 2] and f(x, by=3.0).tolist() == [3, 3]
    assert nc.grad(lambda x: f(x).sum())(x).tolist() == [2, 2] and nc.vmap(f)(nc.ones((1, 2))).tolist() == [[2, 2]]
    assert rules == [2.0, {"by": 2.0}]
    assert "by=2.0" in str(nc.freeze(lambda x: f(x), x).graph)


def test_names_of_operands_are_names_of_the_function() -> None:
    f = nc.primitive("outside_names", element=lambda left, right: left * right)
    dynamic = nc.jit(f, dynamic_shapes={"left": {0: nc.Dim("n")}, "right": {0: nc.Dim("n")}})
    assert dynamic(nc.ones(2), nc.ones(2)).shape == (2,) and dynamic(nc.ones(5), nc.ones(5)).shape == (5,)
    assert len(dynamic.concrete_functions) == 1


def primitive(**options: Any) -> Callable[[], Any]:
    return lambda: nc.primitive("outside_bad", **{"element": lambda x: x * 2, **options})


REFUSED: dict[str, Callable[[], Any]] = {
    "must not be one of primitive, result, results, types, y, .*; got types": primitive(element=lambda x, *, types: x),
    "got result;": primitive(element=lambda x, *, result: x),
    "got y;": primitive(element=lambda x, *, y: x),
    "got primitive;": primitive(element=lambda x, *, primitive: x),
    "got results;": lambda: nc.primitive("outside_free", element=lambda x, **params: x)(1.0, results=3),
    "parameters must be numbers, .*; got by=": primitive(element=lambda x, *, by=[1]: x),
    "version must be a str; got None": primitive(version=None),
    "version must be a str; got 3": primitive(version=3),
    r"partials\[0\] must be a function, or None; got 3": primitive(partials=[3]),
    "partials must be a list of functions; got <function": primitive(partials=lambda y, x: x),
    r"transposes\[0\] must be a function, or None; got 'f'": primitive(transposes=["f"]),
    r"partials\[0\] of outside_bad must take \(y, x0\); got \(x\): too many": primitive(partials=[lambda x: x]),
    r"partials\[0\] of outside_bad must take \(y, x0, \*, by\)": primitive(
        element=lambda x, *, by: x, partials=[lambda y, x: x]
    ),
    r"jvp of outside_bad must take \(y, xs, ts\)": primitive(jvp=lambda y, x: x),
    r"jvp of outside_bad must take \(y, xs, ts, \*, xs\)": primitive(
        element=lambda x, *, xs: x, jvp=lambda y, xs, ts, **params: ts[0]
    ),
    r"batch of outside_bad must take \(xs, axes\)": primitive(batch=lambda xs: xs),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_parameters_and_rules_are_refused_where_they_are_defined(message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        REFUSED[message]()


def cropped() -> Callable[..., Any]:
    return nc.primitive(
        "outside_crop",
        result=lambda x: ((x.shape[0] - 4,), x.dtype),
        nest=lambda types, t: f"kernel k(x: {types[0]}) -> (y: {t}):\n  for i in {t.shape[0]}:\n    y[i] = x[i]",
    )


def test_sizes_that_may_be_negative_are_refused() -> None:
    f = cropped()
    with pytest.raises(nc.ShapeError, match="outside_crop: sizes of the result must be at least 0; got -2, in axis 0"):
        f(nc.ones(2))
    with pytest.raises(nc.ShapeError, match="at least 0; got n - 4, which may be as small as -4, in axis 0; give"):
        nc.jit(lambda x: f(x), dynamic_shapes={"x": {0: nc.Dim("n")}})(nc.ones(8))
    bounded = nc.jit(lambda x: f(x), dynamic_shapes={"x": {0: nc.Dim("n", min=4)}})
    assert bounded(nc.arange(6.0)).tolist() == [0, 1] and bounded(nc.ones(4)).shape == (0,)
    with pytest.raises(nc.ShapeError):
        bounded(nc.ones(3))


@pytest.mark.parametrize("size", [2.0, "2", None, True, nc.ones(1)], ids=str)
def test_sizes_of_other_kinds_are_refused(size: Any) -> None:
    f = nc.primitive("outside_sized", result=lambda x: ((size,), x.dtype), nest=lambda types, t: "")
    with pytest.raises(nc.Error, match=r"outside_sized|sizes must be integers"):
        f(nc.ones(2))


def test_an_operation_is_pickled_by_its_name_and_version() -> None:
    f = nc.primitive("outside_pickled", element=lambda x: x * 2, version="1")
    held = pickle.dumps(f.primitive)  # type: ignore[attr-defined]
    assert pickle.loads(held) is f.primitive is copy.deepcopy(f.primitive)  # type: ignore[attr-defined]
    nc.primitive("outside_pickled", element=lambda x: x * 3, version="2")
    assert copy.deepcopy(f.primitive) is f.primitive  # type: ignore[attr-defined]
    with pytest.raises(nc.Error, match="outside_pickled must have version '1'; got '2'"):
        pickle.loads(held)


def saved(path: Any, version: str = "1", name: str = "outside_saved") -> None:
    f = nc.primitive(name, element=lambda x, *, by=2.0: x * by, version=version)
    nc.save_program(lambda x: nc.fori_loop(0, 2, lambda k, y: f(y), x), path, nc.ones(1))


def test_a_saved_program_needs_the_versions_of_its_operations(tmp_path: Any) -> None:
    path = tmp_path / "p.safetensors"
    with pytest.raises(nc.Error, match="must have a version to be saved; outside_saved has none; pass version="):
        saved(path, "")
    saved(path)
    assert nc.load_program(path)(nc.ones(1)).tolist() == [4.0]
    nc.primitive("outside_saved", element=lambda x, *, by=9.0: x * by, version="1")  # the default is in the file
    assert nc.load_program(path)(nc.ones(1)).tolist() == [4.0]
    nc.primitive("outside_saved", element=lambda x, *, by=2.0: x + by, version="2")
    with pytest.raises(nc.Error, match=r"outside_saved has version '2'; .* needs '1'; save the program again"):
        nc.load_program(path)
    withdraw("outside_saved")
    with pytest.raises(nc.Error, match=r"outside_saved of .* is not; import the module that defines it first"):
        nc.load_program(path)


def test_a_file_must_name_the_versions_of_its_operations(tmp_path: Any) -> None:
    path = tmp_path / "p.safetensors"
    saved(path)
    data = path.read_bytes()
    for bad, reason in ((b'"primitiveS"', "it has no version of outside_saved"),):
        path.write_bytes(data.replace(b'"primitives"', bad))
        with pytest.raises(nc.Error, match=reason):
            nc.load_program(path)
    name = b'\\"outside_saved\\": \\"1\\"'
    for other, reason in (
        (b'\\"exp\\":              1', "not versions by name"),
        (b'\\"exp\\":           \\"1\\"', "exp of"),
    ):
        assert data.count(name) == 1
        path.write_bytes(data.replace(name, other.ljust(len(name))[: len(name)]))
        with pytest.raises(nc.Error, match=reason):
            nc.load_program(path)
