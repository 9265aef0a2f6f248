"""New dtypes, such as wide complex numbers and integers of four bits, need only a definition."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nacre.api.elementwise.apply import require
from nacre.base.dims import Dim, evaluate
from nacre.base.dtypes import (
    ANY,
    BITWISE,
    BOOLEAN,
    FLOATING,
    INEXACT,
    INTEGRAL,
    NUMERIC,
    ORDERED,
    REAL,
    Category,
    DType,
    as_dtype,
    bool_,
    dtype_named,
    float32,
    int8,
    promote,
)
from nacre.base.errors import DTypeError
from nacre.base.types import TensorType
from nacre.interpret.stage import stage
from nacre.ir.primitive import primitive_named
from nacre.kernel.ast import OPERATIONS
from nacre.ops import pointwise
from nacre.trace.value import Value

SETS = (BOOLEAN, INTEGRAL, BITWISE, FLOATING, INEXACT, REAL, NUMERIC, ORDERED, ANY)
WIDE = DType("float80", "f80", Category.FLOATING, 80, 128, np.dtype(np.longdouble), "x86_fp80", "x86_fp80", None, None)
COMPLEX = DType(
    *("complex160", "c160", Category.COMPLEX, 160, 256, np.dtype(np.clongdouble), "[2 x x86_fp80]", "[2 x x86_fp80]"),
    *(WIDE, None),
)
SHORT = DType("nibble", "n4", Category.SIGNED, 4, 4, np.dtype("V1"), "i4", "i4", None, int8)


def test_complex_numbers_have_two_real_components() -> None:
    assert COMPLEX.is_complex and COMPLEX.is_inexact and COMPLEX.is_differentiable and COMPLEX.is_signed
    assert not COMPLEX.is_float and not COMPLEX.is_integer and not COMPLEX.is_bool and not COMPLEX.is_widened
    assert COMPLEX.real is WIDE and COMPLEX.components == 2 and COMPLEX.arithmetic is COMPLEX
    assert COMPLEX.python is complex and COMPLEX.kind == "c" and COMPLEX.itemsize == 32
    assert [s for s in SETS if COMPLEX in s] == [INEXACT, NUMERIC, ANY]
    kind = TensorType((2, 3), COMPLEX)
    assert (str(kind), repr(COMPLEX), kind.nbytes) == ("c160[2, 3]", "nacre.complex160", 192)


def test_elements_of_fewer_than_eight_bits_are_packed() -> None:
    assert SHORT.is_integer and SHORT.is_signed and not SHORT.is_inexact and not SHORT.is_differentiable
    assert SHORT.is_widened and SHORT.arithmetic is int8 and (SHORT.bits, SHORT.storage_bits) == (4, 4)
    assert [s for s in SETS if SHORT in s] == [INTEGRAL, BITWISE, REAL, NUMERIC, ORDERED, ANY]
    assert (str(TensorType((3,), SHORT)), repr(SHORT)) == ("n4[3]", "nacre.nibble")
    assert [TensorType((n,), SHORT).nbytes for n in range(6)] == [0, 1, 1, 2, 2, 3]
    assert TensorType((3, 3), SHORT).nbytes == 5
    some = TensorType((Dim.symbol("n", max=64),), SHORT).nbytes
    assert [evaluate(some, {"n": n}) for n in range(6)] == [0, 1, 1, 2, 2, 3]
    with pytest.raises(
        DTypeError, match="itemsize: elements must be whole bytes; got nibble, of 4 bits; use the nbytes"
    ):
        SHORT.itemsize  # noqa: B018


def test_a_dtype_is_found_by_name_only_if_it_is_registered() -> None:
    for dtype in (COMPLEX, SHORT):
        for name in (dtype.name, dtype.short):
            with pytest.raises(DTypeError, match="the name must be one of"):
                dtype_named(name)
        with pytest.raises(DTypeError, match="must be one of"):
            as_dtype(dtype.numpy)
        with pytest.raises(DTypeError, match="dtypes must be of one kind"):
            promote(dtype, float32)
        assert promote(dtype, dtype) is dtype


ACCEPTED: dict[str, dict[DType, bool]] = {
    "add": {COMPLEX: True, SHORT: True},
    "mul": {COMPLEX: True, SHORT: True},
    "div": {COMPLEX: True, SHORT: False},
    "idiv": {COMPLEX: False, SHORT: True},
    "neg": {COMPLEX: True, SHORT: True},
    "floor": {COMPLEX: False, SHORT: True},
    "exp": {COMPLEX: True, SHORT: False},
    "atan2": {COMPLEX: False, SHORT: False},
    "maximum": {COMPLEX: False, SHORT: True},
    "lt": {COMPLEX: False, SHORT: True},
    "eq": {COMPLEX: True, SHORT: True},
    "isnan": {COMPLEX: True, SHORT: False},
    "and": {COMPLEX: False, SHORT: True},
    "shl": {COMPLEX: False, SHORT: True},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_type_rules_of_operations_know_new_dtypes_by_their_traits(name: str) -> None:
    rule, count = primitive_named(name).type_rule, OPERATIONS[name][0]
    for dtype, accepted in ACCEPTED[name].items():
        kind = TensorType((3,), dtype)
        if accepted:
            assert rule(*[kind] * count) in (kind, TensorType((3,), bool_))
            continue
        told = "take the abs, or a part" if dtype.is_complex else "convert with `astype`"
        with pytest.raises(DTypeError, match=rf"^{name}: the dtype must be .*; got {re.escape(str(kind))}; {told}$"):
            rule(*[kind] * count)


def test_type_rules_of_reductions_know_new_dtypes_by_their_traits() -> None:
    x, y = (TensorType((2, 3), d) for d in (COMPLEX, SHORT))
    total = primitive_named("sum").type_rule
    assert total(x, axes=(1,)) is TensorType((2,), COMPLEX) and total(y, axes=(1,)) is TensorType((2,), SHORT)
    words = "bool or signed integer or unsigned integer or floating-point"
    for name, params in {"max": {"axes": (1,)}, "argsort": {"axis": 1, "descending": False}}.items():
        rule = primitive_named(name).type_rule
        assert rule(y, **params).shape in ((2,), (2, 3))
        with pytest.raises(
            DTypeError, match=rf"^{name}: the dtype must be {words}; got c160\[2, 3\]; take the abs, or a part$"
        ):
            rule(x, **params)
    with pytest.raises(DTypeError, match=r"^any: the dtype must be bool; got n4\[2, 3\]; convert"):
        primitive_named("any").type_rule(y, axes=(1,))


def test_public_functions_refuse_new_dtypes_by_their_traits() -> None:
    got = "got complex160; take its abs, or a part"
    with pytest.raises(DTypeError, match=rf"^atan2: operands must have a floating-point dtype; {got}$"):
        require("atan2", COMPLEX, FLOATING)
    with pytest.raises(
        DTypeError, match=r"sort: operands must have a real dtype; got complex160; take its abs, or a part$"
    ):
        require("sort", COMPLEX, ORDERED)
    with pytest.raises(DTypeError, match=r"logical_and: operands must have dtype bool; got nibble$"):
        require("logical_and", SHORT, BOOLEAN)
    require("add", COMPLEX, NUMERIC)
    require("bitwise_and", SHORT, BITWISE)


def _doubled_square(x: Value) -> list[Value]:
    return [pointwise.mul(pointwise.add(x, x), x)]


def test_graphs_of_new_dtypes_are_staged_and_printed() -> None:
    for dtype in (COMPLEX, SHORT):
        graph = stage(_doubled_square, [TensorType((3,), dtype)]).graph
        t = f"{dtype.short}[3]"
        assert str(graph).splitlines()[0] == f'graph "graph"(a: {t}):'
        assert [line.split("  #")[0].strip() for line in str(graph).splitlines()[1:]] == [
            f"b: {t} = add(a, a)",
            f"c: {t} = mul(b, a)",
            "return c",
        ]
        assert graph.verify() is graph
