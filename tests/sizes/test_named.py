"""Sizes with a name and bounds: which arguments have them, the sizes among the results, and errors."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from nacre.transform.jit import Jitted

N, M = nc.Dim("n", min=1, max=64), nc.Dim("m", min=1, max=64)


def ones(*shape: int) -> Any:
    return nc.ones(shape)


def one_variant(f: Jitted) -> bool:
    return len(f.concrete_functions) == 1


# ---- sizes among the results


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.shape[0],
        lambda x: (x + 1, x.shape),
        lambda x: {"sum": nc.sum(x), "sizes": [x.shape[0] * 2 + 1, (x.shape[0] + x.shape[1]) // 2, x.ndim]},
    ],
    ids=["size", "shape", "containers"],
)
def test_sizes_among_the_results_are_those_of_the_call(function: Any) -> None:
    f = nc.jit(function, dynamic_shapes={"x": {0: N, 1: M}})
    for shape in ((5, 3), (6, 3), (1, 64), (5, 3)):
        found, eager = f(ones(*shape)), function(ones(*shape))
        assert str(found) == str(eager)
        leaves = nc.tree.flatten(found)[0]
        assert all(type(n) is int for n in leaves if not isinstance(n, nc.Tensor))
    assert one_variant(f)


def test_a_calling_function_gets_its_own_sizes() -> None:
    inner = nc.jit(lambda x: (x + 1, x.shape[0]), dynamic_shapes={"x": {0: N}})

    def outer(y: Any) -> Any:
        z, n = inner(y)
        return nc.reshape(z, (n * 3,)), n + 1

    f = nc.jit(outer, dynamic_shapes={"y": {0: M}})
    for n in (2, 7):
        assert f(ones(n, 3))[0].shape == (n * 3,) and f(ones(n, 3))[1] == n + 1
        assert nc.jit(outer)(ones(n, 3))[1] == n + 1
        assert nc.vjp(lambda y: inner(y)[0] * inner(y)[1], ones(n, 3))[0].shape == (n, 3)


def test_a_size_of_other_symbols_is_left() -> None:
    f = nc.jit(lambda x: (x, M), dynamic_shapes={"x": {0: N}})
    assert f(ones(5))[1] is M


# ---- parameters for several values


def test_all_further_arguments_have_the_axes_of_their_parameter() -> None:
    f = nc.jit(lambda x, *xs, y, **named: sum(xs) + x + y + sum(named.values()), dynamic_shapes={"xs": {0: N}})
    g = nc.jit(lambda x, **named: sum(named.values()) * x, dynamic_shapes={"named": {0: N}})
    for n in (4, 5, 6):
        assert f(ones(1), ones(n), ones(n), y=ones(1), z=ones(1)).shape == (n,)
        assert g(ones(1), a=ones(n), b=ones(n)).shape == (n,)
    assert one_variant(f) and one_variant(g)
    with pytest.raises(nc.ShapeError, match=r"the size of axis 0 of named \(n\) must be from 1 to 64; got 65"):
        g(ones(1), a=ones(65), b=ones(65))
    with pytest.raises(nc.ShapeError, match="shapes must agree"):
        g(ones(1), a=ones(4), b=ones(5))


def test_a_keyword_may_have_the_name_of_a_parameter_by_position() -> None:
    def f(x: Any, /, **named: Any) -> Any:
        return x + named["x"]

    g = nc.jit(f, dynamic_shapes={"named": {0: N}})
    assert [g(ones(1), x=ones(n)).shape for n in (4, 5)] == [(4,), (5,)]
    assert one_variant(g)


def test_donated_further_arguments() -> None:
    f = nc.jit(lambda *xs: xs[0] + xs[1], donate=["xs"])
    a, b = ones(3) + 1, ones(3) + 2
    f(a, b)
    for x in (a, b):
        with pytest.raises(nc.StateError):
            x.numpy()


# ---- errors


def refused(function: Any, shapes: dict[str, Any], *args: Any) -> str:
    with pytest.raises(nc.ShapeError) as found:
        nc.jit(function, dynamic_shapes=shapes)(*args)
    return str(found.value)


def test_a_name_with_two_bounds_is_refused() -> None:
    with pytest.raises(nc.ArgumentError, match=r"got n from 1 to 64 and 0 to any; use one Dim for both"):
        nc.jit(lambda x, y: x + y, dynamic_shapes={"x": {0: N}, "y": {0: nc.Dim("n")}})
    f = nc.jit(lambda x, y: x + y, dynamic_shapes={"x": {0: N}, "y": {0: nc.Dim("n", min=1, max=64)}})
    assert f(ones(3), ones(3)).shape == (3,)


def test_names_that_must_agree() -> None:
    x, y = ones(3, 2), ones(3, 2)
    sums = refused(lambda x, y: x + y, {"x": {0: N}, "y": {0: M}}, x, y)
    products = refused(lambda x, y: x @ y, {"x": {1: N}, "y": {0: M}}, x, ones(2, 2))
    joined = refused(lambda x, y: nc.concat([x, y]), {"x": {1: N}, "y": {1: M}}, x, y)
    assert all(error.endswith("; use one Dim for both") for error in (sums, products, joined))
    assert "got (3, n), (3, m)" in joined


TABLE = nc.ones((8, 2))


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda x: TABLE[: x.shape[0]], 8),
        (lambda x: TABLE[: x.shape[0] * 2 + 1], 3),
        (lambda x: TABLE[x.shape[0] :], 8),
        (lambda x: TABLE[x.shape[0]], 7),
    ],
    ids=["stop", "multiple", "start", "index"],
)
def test_an_end_beyond_a_table_names_the_maximum(function: Any, most: int) -> None:
    n = nc.Dim("n", max=20)
    assert f"give n a maximum of at most {most}, as in nc.Dim('n', max={most})" in refused(
        function, {"x": {0: n}}, ones(2, 2)
    )
    f = nc.jit(function, dynamic_shapes={"x": {0: nc.Dim("n", max=most)}})
    for k in range(most + 1):
        assert f(ones(k, 2)).tolist() == function(ones(k, 2)).tolist()
