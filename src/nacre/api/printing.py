"""Tensors as text: printing like NumPy, with dtype and shape, and as HTML tables for notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import numpy as np

from nacre.api.operands import numbers
from nacre.base.dtypes import bfloat16
from nacre.base.errors import REQUESTS, TRACED, ArgumentError, ShapeError, UnknownNumber, explain
from nacre.interpret.evaluate import to_numpy
from nacre.interpret.stage import StagedValue
from nacre.trace.value import DonatedValue, Value, is_concrete

__all__ = ["printoptions", "set_printoptions"]

PROFILES: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, Any] = {}  # the options that were set; NumPy's own options apply to the others


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.  Options that are None stay unchanged; the defaults are NumPy's.

    `precision`: greatest number of digits after the point.  `threshold`: arrays with more elements show only
    `edgeitems` at each end of an axis; `math.inf` shows all.  `linewidth`: columns of a line.  `sci_mode`: True prints
    numbers as 1.0e+00, False never does.  A tensor without axes prints as one with axes does, as NumPy's arrays do;
    `x.item()` shows all digits of its number.  `profile`: "default", "short" or "full",
    applied before the other options.

    >>> nc.set_printoptions(precision=2)
    >>> nc.tensor([1.23456])
    Tensor([1.23], f32[1])
    >>> nc.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in PROFILES:
            raise ArgumentError(f"set_printoptions: profile must be one of {', '.join(PROFILES)}; got {profile!r}")
        _options.clear()
        _options.update(PROFILES[profile])
    for name, value, least in (
        ("precision", precision, 0),
        ("threshold", threshold, 0),
        ("edgeitems", edgeitems, 1),
        ("linewidth", linewidth, 1),
    ):
        if value is not None:
            _options[name] = _count(name, value, least)
    if sci_mode is not None:
        if not isinstance(sci_mode, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"set_printoptions: sci_mode must be True, False or None; got {sci_mode!r}")
        _options["sci_mode"] = sci_mode


def _count(name: str, value: Any, least: int) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole or (name == "threshold" and value == math.inf)) or value < least:
        raise ArgumentError(f"set_printoptions: {name} must be an integer of at least {least}; got {value!r}")
    return value


@contextmanager
def printoptions(**options: Any) -> Generator[None]:
    """A context in which tensors print with other options; the options are those of `set_printoptions`.

    >>> with nc.printoptions(sci_mode=True, precision=3):
    ...     nc.tensor([0.5, 200.0])
    Tensor([5.000e-01, 2.000e+02], f32[2])
    """
    before = dict(_options)
    try:
        set_printoptions(**options)
        yield
    finally:
        _options.clear()
        _options.update(before)


def _text(array: np.ndarray, **how: Any) -> str:
    """An array as NumPy prints it, with the options that are set."""
    options = dict(_options)
    sci_mode = options.pop("sci_mode", None)
    threshold = options.pop("threshold", None)
    if threshold is not None:
        options["threshold"] = int(min(threshold, 2**62))
    if "linewidth" in options:
        options["max_line_width"] = options.pop("linewidth")
    if sci_mode is True:
        options["formatter"] = {"float_kind": _scientific(options.get("precision"))}
    elif sci_mode is False:
        options["suppress_small"] = True
    return np.array2string(array, floatmode="maxprec", **options, **how)


def _scientific(precision: int | None) -> Callable[[Any], str]:
    digits: int = np.get_printoptions()["precision"] if precision is None else precision
    return lambda x: np.format_float_scientific(x, precision=digits, unique=False, trim="k")


def printable(x: Value) -> np.ndarray:
    """The numbers in a form that NumPy prints well."""
    array, dtype = to_numpy(x), x.type.dtype
    if dtype.is_storage:
        return array.astype(dtype.number.numpy)
    return array.astype(np.float32) if dtype is bfloat16 else array


def represent(x: Value, requires_grad: bool | None = None) -> str:
    """`Tensor([1., 2.], f32[2])`, with `requires_grad=True` if set; a traced tensor shows only its type."""
    if not is_concrete(x):
        return f"Tensor({x.type}, {'donated' if isinstance(x.content, DonatedValue) else 'traced'})"
    wanted = x.node is not None if requires_grad is None else requires_grad
    body = _text(printable(x), separator=", ", prefix="Tensor(")
    return f"Tensor({body}, {x.type}{', requires_grad=True' if wanted else ''})"


def as_text(x: Value) -> str:
    """The numbers without the type, as `print` shows them; UnknownNumber where a program prints them."""
    if is_concrete(x):
        return _text(printable(x))
    if REQUESTS.found is not None and isinstance(x.content, StagedValue):  # `print` has a form that the program runs
        raise UnknownNumber(_WRITTEN.format(operation="str", type=x.type), "str")
    return represent(x)


_WRITTEN: Final = explain(
    "{operation}: the tensor must have known numbers; got a traced tensor of type {type}",
    '@nc.jit\ndef f(x):\n    text = f"loss {{x.sum():.3f}}"            # or "%.3f" % x.sum(), str(x), "...".format(x)\n'
    "    log(text)\n    return x",
    f"{TRACED}\n  a tensor is a placeholder without numbers, so Python cannot write them into a text.",
    '@nc.jit\ndef f(x):\n    print(f"loss {{x.sum():.3f}}")    # printed when the program runs\n'
    '    nc.host_call(lambda s: log(f"loss {{s:.3f}}"), None, x.sum())\n'
    "    return x                              # repr(x) is the type, for debugging",
)


def formatted(x: Value, spec: str) -> str:
    """The number of a tensor of one element, as `format` writes a Python number.

    Raises ShapeError for another number of elements, ArgumentError for a format that Python does not know.
    """
    if x.type.static and x.type.size != 1:
        raise ShapeError(
            f"format: the tensor must have one element for the format {spec!r}; got shape {x.type.shape}; format an "
            "element, or print the tensor inside `with nacre.printoptions(precision=3):`"
        )
    if isinstance(x.content, StagedValue):
        raise UnknownNumber(_WRITTEN.format(operation="format", type=x.type), "format")
    number = numbers(x, "format").item()
    try:
        return format(number, spec)
    except ValueError as fault:
        raise ArgumentError(
            f"format: the format must fit a number of dtype {x.type.dtype.name}; got {spec!r}; Python says: {fault}"
        ) from None


def as_html(x: Value) -> str:
    """An HTML table of a matrix or vector, with the type below.  Other shapes give the text of `represent`."""
    if not is_concrete(x) or len(x.type.shape) not in (1, 2) or not x.type.size:
        return f"<pre>{_escaped(represent(x))}</pre>"
    array = np.atleast_2d(printable(x))
    shown: dict[str, Any] = {**np.get_printoptions(), **_options}
    edge = int(shown["edgeitems"]) if array.size > shown["threshold"] else max(array.shape)
    rows, columns = (_places(count, edge) for count in array.shape)
    lines = [_row([None if i is None or j is None else _text(array[i, j, None])[1:-1] for j in columns]) for i in rows]
    note = f"{x.type}{', requires_grad=True' if x.node is not None else ''}"
    return f"<table>{''.join(lines)}</table><small>Tensor, {_escaped(note)}</small>"


def _escaped(text: str) -> str:
    return import_module("html").escape(text)  # which is slow to import, and which nothing else needs


def _places(count: int, edge: int) -> list[int | None]:
    """Indices of an axis; None marks omitted ones."""
    return list(range(count)) if count <= 2 * edge else [*range(edge), None, *range(count - edge, count)]


def _row(cells: list[str | None]) -> str:
    return "<tr>" + "".join(f"<td>{'⋯' if c is None else _escaped(c.strip())}</td>" for c in cells) + "</tr>"
