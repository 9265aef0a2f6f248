"""The texts of tensors, parameters and compiled functions, and the options of printing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import nacre as nc
from nacre import nn

X = nc.tensor([1.23456789, 1000.0, 0.000012])


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    nc.set_printoptions(profile="default")


def test_tensors_that_require_a_gradient_say_so() -> None:
    x = nc.tensor([1.0, 2.0]).requires_grad_()
    assert repr(x) == "Tensor([1., 2.], f32[2], requires_grad=True)"
    assert repr(x * 2) == "Tensor([2., 4.], f32[2], requires_grad=True)"
    assert repr((x * 2).detach()) == "Tensor([2., 4.], f32[2])"
    with nc.no_grad():
        assert "requires_grad" not in repr(x * 2)
    assert str(x) == "[1. 2.]"
    p = nn.Parameter([1.0])
    p.name = "weight"
    assert repr(p) == "Parameter weight: Tensor([1.], f32[1], requires_grad=True)"
    assert repr(p.requires_grad_(False)) == "Parameter weight: Tensor([1.], f32[1])"
    assert repr(nn.Buffer([1.0])) == "Buffer: Tensor([1.], f32[1])"


def test_compiled_functions_describe_themselves() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        return x * 2

    assert repr(f) == "<jit f: 0 concrete functions>"
    f(X)
    assert repr(f) == "<jit f: 1 concrete function>"
    f(X[:2])
    assert repr(f) == "<jit f: 2 concrete functions>"
    assert repr(nc.jit(nn.Linear(2, 2))) == "<jit Linear: 0 concrete functions>"


@pytest.mark.parametrize(("options", "text"), [
    ({"precision": 2}, "Tensor([1.23e+00, 1.00e+03, 1.20e-05], f32[3])"),
    ({"precision": 3, "sci_mode": False}, "Tensor([   1.235, 1000.   ,    0.   ], f32[3])"),
    ({"precision": 1, "sci_mode": True}, "Tensor([1.2e+00, 1.0e+03, 1.2e-05], f32[3])"),
    ({"profile": "short", "sci_mode": False}, "Tensor([   1.23, 1000.  ,    0.  ], f32[3])"),
    ({"linewidth": 30, "precision": 0, "sci_mode": False}, "Tensor([   1., 1000.,    0.], f32[3])"),
    ({"linewidth": 20, "precision": 0, "sci_mode": False}, "Tensor([   1.,\n        1000.,\n           0.], f32[3])"),
])  # fmt: skip
def test_options(options: dict[str, Any], text: str) -> None:
    before = repr(X)
    with nc.printoptions(**options):
        assert repr(X) == text
        assert str(nc.tensor([1, 2])) == "[1 2]"
    assert repr(X) == before
    nc.set_printoptions(**options)
    assert repr(X) == text
    nc.set_printoptions(profile="default")
    assert repr(X) == before


def test_long_tensors_are_shortened() -> None:
    x = nc.arange(10)
    nc.set_printoptions(threshold=5, edgeitems=2)
    assert str(x) == "[0 1 ... 8 9]"
    nc.set_printoptions(edgeitems=1)  # the threshold stays
    assert repr(x) == "Tensor([0, ..., 9], i64[10])"
    nc.set_printoptions(threshold=math.inf)
    assert str(x) == "[0 1 2 3 4 5 6 7 8 9]"
    assert "..." not in str(nc.arange(3000)) and len(str(nc.arange(3000)).strip("[]").split()) == 3000


def test_options_nest_and_are_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), nc.printoptions(precision=1):
        with nc.printoptions(edgeitems=1, threshold=1):
            assert repr(nc.tensor([1.25, 2.0, 3.0])) == "Tensor([1.2, ..., 3. ], f32[3])"
        assert repr(nc.tensor([1.25, 2.0, 3.0])) == "Tensor([1.2, 2. , 3. ], f32[3])"
        1 / 0  # noqa: B018
    assert repr(nc.tensor([1.25])) == "Tensor([1.25], f32[1])"


@pytest.mark.parametrize("wrong", [
    {"precision": -1}, {"precision": 1.5}, {"precision": "a"}, {"threshold": -1}, {"threshold": math.nan},
    {"edgeitems": 0}, {"linewidth": True}, {"profile": "long"}, {"sci_mode": 1},
])  # fmt: skip
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(nc.ArgumentError, match="set_printoptions: "):
        nc.set_printoptions(**wrong)
    assert repr(nc.tensor([1.25])) == "Tensor([1.25], f32[1])"


def test_notebooks_get_tables() -> None:
    assert nc.tensor([[1, 2], [3, 4]])._repr_html_() == (
        "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table><small>Tensor, i64[2, 2]</small>"
    )
    wide = nc.arange(5000).reshape(50, 100).astype(nc.float32)._repr_html_()
    assert wide.count("<tr>") == 7 and wide.count("<td>") == 49 and wide.count("⋯") == 13
    assert nc.tensor([0.5]).requires_grad_()._repr_html_().endswith("f32[1], requires_grad=True</small>")
    for x in (nc.tensor(1.5), nc.zeros((2, 2, 2)), nc.zeros((0, 3))):
        assert x._repr_html_() == f"<pre>{x!r}</pre>"
    shown: list[str] = []
    nc.jit(lambda x: (shown.append(x._repr_html_()), x)[1])(X)
    assert shown == ["<pre>Tensor(f32[3], traced)</pre>"]


@pytest.mark.parametrize(("x", "spec", "text"), [
    (1.23456, ".3f", "1.235"), (3, "5d", "    3"), (3, "b", "11"), (1 + 2j, ".1f", "1.0+2.0j"), (True, ">3", "  1"),
    ([[0.5]], ".1%", "50.0%"), (1234567.0, ",.0f", "1,234,567"), (float("nan"), ".2f", "nan"), (2.5, "", "2.5"),
])  # fmt: skip
def test_formats_of_one_number(x: Any, spec: str, text: str) -> None:
    assert format(nc.tensor(x), spec) == text


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float64"])
def test_formats_of_floats(name: str) -> None:
    assert f"{nc.tensor(0.5).astype(getattr(nc, name)):.3f}" == "0.500"


def test_formats_that_are_refused() -> None:
    with pytest.raises(
        nc.ShapeError, match=r"format: the tensor must have one element for the format '.3f'; got .*\(2,\)"
    ):
        format(nc.tensor([1.0, 2.0]), ".3f")
    with pytest.raises(
        nc.ArgumentError, match=r"format: the format must fit a number of dtype float32; got 'd'; Python"
    ):
        format(nc.tensor(1.5), "d")
    with pytest.raises(nc.TraceError, match="format: the tensor must have known numbers"):
        nc.jit(lambda x: (f"{x:.3f}", x)[1])(nc.tensor(1.0))
    assert f"{nc.tensor([1.0, 2.0])}" == "[1. 2.]"


@pytest.mark.parametrize(("x", "text"), [
    (nc.zeros((0, 3)), "Tensor([], f32[0, 3])"),
    (nc.zeros((2, 0), dtype=nc.int64), "Tensor([], i64[2, 0])"),
    (nc.tensor([1 + 2j, complex("nan")], dtype=nc.complex64), "Tensor([ 1.+2.j, nan+0.j], c64[2])"),
    (nc.tensor([True, False]), "Tensor([ True, False], bool[2])"),
    (nc.tensor(True), "Tensor(True, bool[])"),
    (nc.tensor([0.3], dtype=nc.bfloat16), "Tensor([0.30078125], bf16[1])"),
    (nc.tensor([65504.0, 1e-4], dtype=nc.float16), "Tensor([6.55e+04, 1.00e-04], f16[2])"),
    (nc.tensor([0.3]).astype(nc.float8_e5m2), "Tensor([0.3125], f8e5m2[1])"),
    (nc.tensor([-8, 7], dtype=nc.int4), "Tensor([-8,  7], i4[2])"),
    (nc.tensor([1.0, -nc.inf, nc.nan, -0.0]), "Tensor([  1., -inf,  nan,  -0.], f32[4])"),
    (nc.tensor([2**64 - 1], dtype=nc.uint64), "Tensor([18446744073709551615], u64[1])"),
    (nc.broadcast_to(nc.tensor(1.5), (1 << 15, 1 << 15)), None),
])  # fmt: skip
def test_texts_of_all_kinds_of_tensors(x: nc.Tensor, text: str | None) -> None:
    if text is None:  # a huge tensor
        shown = repr(x)
        assert shown.endswith("f32[32768, 32768])") and len(shown) < 700
    else:
        assert repr(x) == text


def test_settings_of_numpy_and_numbers_without_axes() -> None:
    with pytest.raises(nc.KindError, match="'suppress'; write sci_mode=False"), nc.printoptions(suppress=True):
        pass
    with pytest.raises(nc.KindError, match=r"'formatter'. Leave it out; format the numbers of x.numpy\(\)"):
        nc.set_printoptions(formatter={})  # type: ignore[call-arg]
    x = nc.tensor(1 / 3, dtype=nc.float64)
    assert repr(x) == "Tensor(0.33333333, f64[])" and str(x.item()) == "0.3333333333333333"
    assert repr(nc.tensor(-0.0)) == "Tensor(-0., f32[])"
