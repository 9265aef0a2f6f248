"""Tensors of Nacre under the conventions of JAX's arrays, for `jax_transforms.py`."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import nacre as nc

NARROW = {np.dtype(a): np.dtype(b) for a, b in (("f8", "f4"), ("i8", "i4"), ("u8", "u4"), ("c16", "c8"))}
WIDE = dict.fromkeys(map(np.dtype, (np.float16, ml_dtypes.bfloat16, "f4", "f8")), np.dtype("f8"))
WIDE |= dict.fromkeys(map(np.dtype, ("c8", "c16")), np.dtype("c16"))
LOADING = [True]  # while a file of tests is loaded
WIDENED = [False]  # while floating-point and complex numbers have 64 bits a part


class Missing(Exception):
    """A test needs a name of JAX that Nacre or this file lacks."""


class Absent:
    """A name of JAX that is not there: while a file is loaded it may be called, later it raises Missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "__name__":
            return self._name
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *args: Any, **_: Any) -> Any:
        if self._name.endswith("cache_clear"):
            return None
        self._reach()
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType | type) else self

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def _reach(self, *_: Any) -> Any:
        if not LOADING[0]:
            raise Missing(self._name)
        return self

    __getitem__ = __setitem__ = __enter__ = __or__ = _reach

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[Any]:
        self._reach()
        return iter(())


@contextlib.contextmanager
def widened() -> Iterator[None]:
    """A context in which floating-point and complex numbers have 64 bits a part."""
    before, WIDENED[0] = WIDENED[0], True
    try:
        yield
    finally:
        WIDENED[0] = before


def fitting(dtype: Any) -> Any:
    """The dtype in place of one: of 32 bits in place of 64, but inside of `widened` of 64 bits for inexact numbers."""
    dtype = np.dtype(dtype)
    return WIDE[dtype] if WIDENED[0] and dtype in WIDE else NARROW.get(dtype, dtype)


def array(x: Any) -> Any:
    """A tensor of a fitting dtype for a number, an array or a tensor; anything else as it is."""
    if isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        held = np.asarray(x)
        if held.dtype.kind in "VOUS" and held.dtype != ml_dtypes.bfloat16:
            raise Missing(f"arrays of {held.dtype}")
        return nc.asarray(held.astype(fitting(held.dtype)))
    return narrow(x) if WIDENED[0] else x


def of_numpy(x: Any) -> Any:
    """A tensor for an array of NumPy or a tensor; anything else as it is."""
    return array(x) if isinstance(x, np.ndarray | np.generic | nc.Tensor) else x


def walked(f: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of containers with a function applied to its leaves."""
    if isinstance(tree, dict):
        return {k: walked(f, v) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(walked(f, v) for v in tree))
    return type(tree)(walked(f, v) for v in tree) if isinstance(tree, list | tuple) else f(tree)


arrays = functools.partial(walked, array)


def narrow(x: Any) -> Any:
    """A tensor of the fitting dtype; anything else as it is."""
    return x.astype(own) if isinstance(x, nc.Tensor) and (own := fitting(x.dtype)) != np.dtype(x.dtype) else x


def kind(x: Any) -> int:
    """0 for bool, 1 for integers, 2 for floating-point and 3 for complex numbers."""
    if isinstance(x, nc.Tensor):
        kinds = ("bool", "integral", "real floating", "complex floating")
        return next(k for k, name in enumerate(kinds) if nc.isdtype(x.dtype, name))
    return next(k for k, of in enumerate((bool, int, float, complex)) if isinstance(x, of))


def of_one_kind(xs: Sequence[Any], least: int = 0) -> list[Any]:
    """Operands in the highest kind among them."""
    top = max(least, *map(kind, xs))
    same = [x.dtype for x in xs if isinstance(x, nc.Tensor) and kind(x) == top]
    dtype = nc.result_type(*same) if same else (nc.bool, nc.int32, nc.float32, nc.complex64)[top]
    return [x.astype(dtype) if isinstance(x, nc.Tensor) and kind(x) < top else x for x in xs]


def conjugated(x: Any) -> Any:
    """A tensor, conjugated if it is complex."""
    return nc.conj(x) if isinstance(x, nc.Tensor) and kind(x) == 3 else x


def lifted(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Nacre that takes arrays, lists of arrays, and numbers of several kinds."""

    @functools.wraps(f)
    def call(*args: Any, **settings: Any) -> Any:
        given = [walked(of_numpy, a) for a in args]
        if name == "astype" and WIDENED[0]:
            given[1:] = map(fitting, given[1:])
        if name in ELEMENTWISE:
            given = of_one_kind(list(map(array, given)), 2 if name in FLOATING else 0)
        try:
            return walked(narrow, f(*given, **{k: v for k, v in settings.items() if k != "precision"}))
        except TypeError as fault:
            if "unexpected keyword" in str(fault):
                raise Missing(f"{name}({', '.join(settings)})") from None
            raise

    return call


FLOATING = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "cbrt",
    "reciprocal",
    "sigmoid",
    "divide",
    "true_divide",
    "atan2",
    "arctan2",
    "erf",
    "erfc",
    "logaddexp",
    "mean",
    "var",
    "std",
]
ELEMENTWISE = [
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "power",
    "pow",
    "remainder",
    "floor_divide",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "abs",
    "negative",
    "square",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "real",
    "imag",
    "conj",
    "hypot",
    "matmul",
    "dot",
    "vecdot",
    "tensordot",
    "outer",
    "inner",
    "sum",
    "prod",
    "max",
    "min",
    "cumsum",
    "cumprod",
    "isfinite",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
] + FLOATING
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


def install() -> None:
    """Let the operators and methods of tensors take arrays, and numbers of several kinds."""
    for name in [*OPERATORS, *(f"r{n}" for n in OPERATORS), *COMPARISONS]:
        own = getattr(nc.Tensor, f"__{name}__")

        logical = {"add": nc.logical_or, "mul": nc.logical_and}.get(name.removeprefix("r"))

        def apply(
            x: Any, y: Any, own: Any = own, logical: Any = logical, least: int = 2 if "truediv" in name else 0
        ) -> Any:
            x, y = of_numpy(x), of_numpy(y)
            known = isinstance(y, nc.Tensor | bool | int | float | complex)
            if logical is not None and known and kind(x) == kind(y) == 0:
                return logical(x, y)
            return narrow(own(*of_one_kind([x, y], least))) if known else own(x, y)

        setattr(nc.Tensor, f"__{name}__", apply)
    for name in ("sum", "prod", "argmax", "argmin", "cumsum"):
        setattr(nc.Tensor, name, lambda x, *a, own=getattr(nc.Tensor, name), **k: narrow(own(x, *a, **k)))
    own = nc.Tensor.astype
    nc.Tensor.astype = lambda x, to, **k: own(x, WIDE.get(np.dtype(to), to) if WIDENED[0] else to, **k)
