"""`precision`: how many digits each operation of a function has, compared with a run in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nacre.base.boundary import publish_all
from nacre.base.dtypes import DType, complex128, float64
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.anomalies.kinds import placed
from nacre.interpret.anomalies.steps import Rounds, StepwiseRun, stack
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.graph import Equation, Literal, Var
from nacre.ir.primitive import Host
from nacre.trace.bind import executor
from nacre.trace.value import Value
from nacre.transform.anomalies import traced_with_places
from nacre.transform.jit import jit

__all__ = ["LostDigits", "Precision", "precision"]

EXACT: Final = 17.0  # digits of a value that equals the one in float64
Pair = tuple[Value, Value]  # a value, and the same in float64


@dataclass(frozen=True)
class LostDigits:
    """The decimal digits of an operation's result, and those of its least exact operand.

    `line` is the user's, `module` the path of the innermost module, `rounds` the rounds of loops.

    >>> from nacre import inspect
    >>> (first, *_) = inspect.precision(lambda x: (x + 10000.0) - 10000.0, nc.tensor([0.1, 0.3]))
    >>> first.operation, first.after < first.before
    ('sub', True)
    """

    operation: str
    type: TensorType
    before: float
    after: float
    line: str
    module: str
    backward: bool
    rounds: tuple[int, ...]

    @property
    def lost(self) -> float:
        """How many digits the operation lost."""
        return self.before - self.after


@dataclass(frozen=True)
class Precision:
    """The digits of each result, and the operations by the digits that they lost, most first.

    >>> from nacre import inspect
    >>> len(inspect.precision(nc.tanh, nc.tensor([0.5])).digits)
    1
    """

    digits: tuple[float, ...]
    operations: tuple[LostDigits, ...]

    def __iter__(self) -> Iterator[LostDigits]:
        return iter(self.operations)

    def __str__(self) -> str:
        lines = ["digits of the results: " + ", ".join(f"{d:.1f}" for d in self.digits)]
        for each in self.operations:
            where = "".join([f", in {each.module}" if each.module else "", *(f", round {k}" for k in each.rounds)])
            lines.append(
                f"{each.operation} of {each.type} lost {each.lost:.1f}: from {each.before:.1f} to {each.after:.1f} "
                f"digits, at {each.line}{where}"
            )
        return "\n".join(lines)


def precision(f: Callable[..., Any], *args: Any, most: int = 10) -> Precision:
    """The digits of a function's results, and the `most` operations that lost most of them, as by cancellation.

    The function runs in its own dtypes and in float64, with equal conditions, integers and random numbers.  The digits
    of a value are -log10 of ‖value - exact‖ / ‖exact‖.  An operation is charged with what its result lacks beyond the
    least exact operand, at least as many digits as its dtype has.  Raises ArgumentError if the function calls the host.

    >>> from nacre import inspect
    >>> found = inspect.precision(lambda x: (x + 10000.0) - 10000.0, nc.tensor([0.1, 0.3]))
    >>> found.operations[0].operation, found.digits[0] < 5
    ('sub', True)
    """
    jitted = jit(f, dynamic=False)
    with traced_with_places():
        prepared, concrete = jitted.prepare(*args), jitted.concrete(*args)
    run = _Comparison()
    outputs = run.run(concrete.graph, [(x, _wide(x)) for x in prepared.inputs])
    digits = tuple(_digits(p) for p in outputs[: concrete.trace.results])
    worst = sorted((row for row in run.charged if row.lost > 0), key=lambda row: -row.lost)
    return Precision(digits, tuple(worst[:most]))


def _wider(dtype: DType) -> DType:
    """The dtype of a value in the run in float64."""
    return (complex128 if dtype.is_complex else float64) if dtype.is_differentiable else dtype


def _wide(x: Value) -> Value:
    dtype = _wider(x.type.dtype)
    return x if dtype is x.type.dtype else from_numpy(to_numpy(x).astype(dtype.numpy))


def _digits(pair: Pair) -> float:
    """The digits of a value; EXACT for those that are no floats."""
    x, wide = pair
    if not x.type.dtype.is_differentiable or not x.type.size:
        return EXACT
    kind = complex if x.type.dtype.is_complex else float
    exact, held = to_numpy(wide).astype(kind), to_numpy(x).astype(kind)
    same = (held == exact) | (np.isnan(held) & np.isnan(exact))
    error = np.linalg.norm(np.where(same, 0, held - exact).reshape(-1))
    norm = np.linalg.norm(exact[np.isfinite(exact)].reshape(-1))
    if error == 0:
        return EXACT
    if not math.isfinite(error) or norm == 0:
        return 0.0
    return min(EXACT, max(0.0, -math.log10(error / norm)))


class _Comparison(StepwiseRun[Pair]):
    """A graph's equations, each run in its own dtypes and in float64."""

    def __init__(self) -> None:
        self.charged: list[LostDigits] = []

    def constant(self, a: Literal) -> Pair:
        """The value of a constant in both runs."""
        x = from_numpy(a.array)
        return x, _wide(x)

    def holds(self, x: Pair) -> bool:
        """Whether a condition is true in the run in the function's dtypes, which both follow."""
        return bool(to_numpy(x[0]))

    def rows(self, x: Pair) -> Sequence[Pair]:
        """The rows along the first axis."""
        value, wide = map(to_numpy, x)
        return [(from_numpy(a), from_numpy(b)) for a, b in zip(value, wide, strict=True)]

    def stacked(self, rows: Sequence[Pair], v: Var) -> Pair:
        """The values of a variable with these rows."""
        shape, dtype = v.type.shape, v.type.dtype
        return stack([x for x, _ in rows], shape, dtype), stack([w for _, w in rows], shape, _wider(dtype))

    def step(self, e: Equation, given: Sequence[Pair], rounds: Rounds, source: str) -> Sequence[Pair]:
        """The results of an equation in both runs, and its row."""
        if e.primitive.effects and isinstance(e.primitive.lowering, Host):
            raise ArgumentError(f"precision: f must call no Python function; got {e.primitive.name} at {source}")
        found = _evaluated(e, [x for x, _ in given], e.params)
        if not any(v.type.dtype.is_differentiable for v in e.outputs):
            return [(y, y) for y in found]
        params = {k: _wider(p) if isinstance(p, DType) else p for k, p in e.params.items()}
        wide = _evaluated(e, [x for _, x in given], params)
        results = [(y, w if y.type.dtype.is_differentiable else y) for y, w in zip(found, wide, strict=True)]
        line, module, backward = placed(source)
        for pair in results:
            own = pair[0].type.dtype
            if own.is_differentiable:
                most = -math.log10(float(np.finfo(np.float32).eps if own.bits >= 32 else 2.0**-8))
                most = 15.9 if own.real is float64 else most
                before = min([most, *map(_digits, given)])
                self.charged.append(
                    LostDigits(e.primitive.name, pair[0].type, before, _digits(pair), line, module, backward, rounds)
                )
        return results


def _evaluated(e: Equation, inputs: Sequence[Value], params: Mapping[str, Any]) -> Sequence[Value]:
    found = executor().evaluate(e.primitive, inputs, params)
    return found if e.primitive.multiple else (found,)


publish_all(__name__)
