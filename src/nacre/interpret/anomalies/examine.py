"""The exact examination of one equation's numbers: which anomaly its results have, if any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from nacre.interpret.anomalies import traits
from nacre.interpret.anomalies.kinds import MADE, SHARES, Anomaly, Kinds, OperandRange
from nacre.interpret.evaluate import to_numpy
from nacre.ir.graph import Equation
from nacre.trace.value import Value

Array = np.ndarray


def examined(e: Equation, inputs: Sequence[Value], outputs: Sequence[Value], kinds: Kinds) -> Anomaly | None:
    """The first anomaly of an equation, by the order of `KINDS`; None if there is none."""
    for y, atom in zip(outputs, e.outputs, strict=True):
        if not traits.is_float(atom):
            continue
        result = _numbers(y)
        given = [_numbers(x) for x, a in zip(inputs, e.inputs, strict=True) if traits.is_float(a)]
        found = _made(e, given, result, kinds) if kinds & MADE else None
        if found is None and traits.is_real_float(atom.type) and atom is e.outputs[0]:
            found = _lost(e, inputs, result, kinds)
        if found is not None:
            kind, count = found
            return Anomaly(kind, e.primitive.name, atom.type, count, tuple(map(operand, inputs)))
    return None


def _numbers(x: Value) -> Array:
    """Floats as NumPy's own ones, with all their bits."""
    array = to_numpy(x)
    return array.astype(np.float32) if x.type.dtype.bits < 32 else array


def _every(conditions: Sequence[Array], shape: tuple[int, ...]) -> Array:
    return reduce(np.logical_and, conditions, np.ones(shape, bool))


def _made(e: Equation, given: Sequence[Array], y: Array, kinds: Kinds) -> tuple[str, int] | None:
    """NaN and infinities in a result: the kind and how many elements."""
    if traits.moves(e) or traits.numerics(e).chooses or bool(np.isfinite(y).all()):
        return None
    nan = np.isnan(y)
    if traits.is_pointwise(e):
        finite = _every([np.isfinite(x) for x in given], y.shape)
        known = _every([~np.isnan(x) for x in given], y.shape)
    else:
        finite = np.full(y.shape, all(bool(np.isfinite(x).all()) for x in given))
        known = np.full(y.shape, not any(bool(np.isnan(x).any()) for x in given))
    pole = np.zeros(y.shape, bool)
    place, numbers = traits.numerics(e).pole
    if numbers and traits.is_pointwise(e):
        pole = ~np.isfinite(y) & finite & np.isin(given[place], numbers)
    found = {
        "division": pole,
        "nan": nan & known & ~pole,
        "overflow": np.isinf(y) & finite & ~pole,
        "input": nan & ~known,
    }
    return next(((k, int(m.sum())) for k, m in found.items() if k in kinds and bool(m.any())), None)


def _lost(e: Equation, inputs: Sequence[Value], y: Array, kinds: Kinds) -> tuple[str, int] | None:
    """Zeros from other numbers, and results with derivative zero: the kind and how many elements."""
    known = traits.numerics(e)
    found: list[tuple[str, Array, float]] = []
    if known.exponential:
        found.append(("underflow", (y == 0) & (_numbers(inputs[0]) > -np.inf), SHARES["exponentials"]))
    elif traits.shrinks(e):
        axes = traits.reduced_axes(e)
        small = [(_numbers(inputs[k]) != 0).all(axis=axes) for k in known.factors]
        small += [np.isfinite(_numbers(inputs[k])) for k in known.divisors]
        found.append(("underflow", (y == 0) & _every(small, y.shape), SHARES["underflow"]))
    if known.bounds:
        found.append(("saturation", np.isin(y, known.bounds), SHARES["saturation"]))
    for kind, mask, share in found:
        count = int(mask.sum())
        if kind in kinds and count >= least_count(share, y.size):
            return kind, count
    return None


def least_count(share: float, size: int) -> float:
    """The number of elements from which a share of a size is reported."""
    return max(1.0, share * size * (1 - 1e-6))


def operand(x: Value) -> OperandRange:
    """The range of an operand."""
    if not x.type.dtype.is_differentiable or x.type.size == 0:
        return OperandRange(x.type)
    numbers = _numbers(x)
    nan, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    held = numbers[np.isfinite(numbers)]
    found = OperandRange(x.type, nan=nan, infinite=infinite)
    if held.size == 0:
        return found
    held = np.abs(held) if x.type.dtype.is_complex else held
    return replace(found, least=float(held.min()), largest=float(held.max()))
