"""L-BFGS: a quasi-Newton method with curvature from the last steps, and a line search.  Vectors are float64 tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

from nacre.api.creation import zeros
from nacre.api.elementwise.arithmetic import abs as abs_
from nacre.api.foreign import array_of
from nacre.api.manipulation import concat
from nacre.api.operands import as_tensor
from nacre.base.dtypes import float64
from nacre.base.errors import ArgumentError, DTypeError, StateError, TraceError, explain
from nacre.base.state import STATE
from nacre.optim.optimiser import Optimizer
from nacre.optim.saved import planned
from nacre.trace.modes import gradients
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

__all__ = ["LBFGS"]

Point = tuple[float, float, Any, float]  # step, loss, gradient, slope along the direction


class LBFGS(Optimizer):
    """L-BFGS (Liu and Nocedal 1989) over all parameters as one vector, as in PyTorch.

    `step(closure)` calls the closure several times; it computes the loss and its gradients.  The closure may be
    compiled; `step` itself cannot be, because it decides by numbers.  `line_search_fn` is None or "strong_wolfe".
    Raises ArgumentError for settings out of range, and for several groups of parameters.

    >>> p = nn.Parameter([3.0]); opt = optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = ((p - 1.0) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = opt.step(closure); round(p.item(), 4)
    1.0
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f'LBFGS: line_search_fn must be None or "strong_wolfe"; got {line_search_fn!r}')
        if max_iter < 1 or history_size < 1:
            raise ArgumentError(f"LBFGS: max_iter and history_size must be positive; got {max_iter}, {history_size}")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ArgumentError(f"LBFGS: all parameters must be in one group; got {len(self.param_groups)} groups")
        for k, p in enumerate(self._params):
            if p.dtype.is_complex:
                named = repr(p.name) if p.name else f"number {k}"
                raise DTypeError(
                    f"LBFGS: parameters must be real; parameter {named} is {p.dtype.name}; write "
                    "p = nn.Parameter(nacre.view_as_real(x)), and nacre.view_as_complex(p) in the model"
                )
        self.memory = _Memory()

    # ---- the parameters as one vector

    @property
    def _params(self) -> list[Variable]:
        return self.param_groups[0].params

    def _position(self) -> Any:
        return concat([_flat(p.value) for p in self._params])

    def _gradient(self) -> Any:
        gradients = [(p, p.gradient) for p in self._params]
        return concat([zeros(p.type.size, float64) if g is None else _flat(g) for p, g in gradients])

    def _place(self, position: Any) -> None:
        at = 0
        for p in self._params:
            size = int(p.type.size)
            p.assign(as_tensor(position[at : at + size].reshape(*p.shape), p.dtype))
            at += size

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[float, Any, Any]:
        """The loss as a number, the gradient, and the closure's result."""
        with gradients(True):
            found = closure()
        return float(_flat(found)[0]), self._gradient(), found

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter iterations; returns the first result of the closure.

        Raises TraceError in a compiled function, ArgumentError without a closure.
        """
        if STATE.word:
            raise TraceError(explain(
                "LBFGS: step cannot be compiled; it was called in a function that is being traced",
                "@nc.jit\ndef step(x, y):\n    return opt.step(closure)",
                "The number of evaluations depends on values, so a step is not one graph; the closure can be.",
                "@nc.jit\ndef closure():\n    opt.zero_grad(); loss = f(); loss.backward()\n    return loss\n\n"
                "opt.step(closure)",
            ))  # fmt: skip
        if closure is None:
            raise ArgumentError("LBFGS: pass a closure that computes the loss and its gradients; got none")
        with gradients(False):
            return self._iterate(closure)

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group, memory = self.param_groups[0], self.memory
        loss, gradient, first = self._evaluate(closure)
        evaluations = 1
        if not gradient.size or _largest(gradient) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            direction = memory.direction(gradient, group["history_size"])
            memory.gradient, before = gradient, loss
            slope = float(gradient @ direction)
            step = group["lr"] * (min(1.0, 1.0 / float(abs_(gradient).sum())) if memory.steps == 1 else 1.0)
            if slope > -group["tolerance_change"]:
                break
            start = self._position()
            if group["line_search_fn"] is not None:
                search = _LineSearch(partial(self._evaluate_along, closure, start, direction), direction)
                left = group["max_eval"] - evaluations
                step, loss, gradient, used = search.run(step, (0.0, loss, gradient, slope), left)
                self._place(start + direction * step)
            else:
                self._place(start + direction * step)
                used = int(iteration < group["max_iter"])
                if used:
                    loss, gradient, _ = self._evaluate(closure)
            evaluations += used
            memory.moved = direction * step
            if (
                evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(memory.moved) <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _evaluate_along(self, closure: Callable[[], Any], start: Any, direction: Any, step: float) -> tuple[float, Any]:
        """The loss and the gradient after a step."""
        self._place(start + direction * step)
        loss, gradient, _ = self._evaluate(closure)
        return loss, gradient

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """The hyper-parameters and the history, with all parameters as one vector."""
        return {**super().state_dict(), "state": {0: dict(vars(self.memory))}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`, or of PyTorch's.

        Raises StateError for anything else, or for the state of other parameters; then nothing is changed.
        """
        plan = planned(self, {**saved, "state": {}} if isinstance(saved, Mapping) else saved)  # pyright: ignore
        try:
            if not isinstance(saved["state"], Mapping):
                raise TypeError(f"the state is {cast('object', saved['state'])!r:.60}")
            memory = _restored_memory(
                cast("Mapping[Any, Any]", saved["state"]), sum(int(p.type.size) for p in self._params)
            )
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as fault:
            raise StateError(
                f"LBFGS.load_state_dict: the state must hold numbers and vectors; {fault}; pass the result of a "
                "state_dict"
            ) from fault
        plan.apply(self)
        self.memory = memory


def _restored_memory(state: Mapping[Any, Any], size: int) -> _Memory:
    """The saved memory, for parameters with `size` numbers in total."""
    made = _Memory()
    if not state:  # PyTorch's state before its first step
        return made
    stored = state.get(0)
    if isinstance(stored, Mapping) and set(cast("Any", stored)) == set(vars(made)):
        vars(made).update(cast("Any", stored))
    elif isinstance(stored, Mapping) and set(cast("Any", stored)) >= PYTORCH:
        pytorch = cast("Mapping[str, Any]", stored)
        made.steps, made.gradient = int(pytorch["n_iter"]), pytorch["prev_flat_grad"]
        made.changes, made.moves = list(pytorch["old_dirs"]), list(pytorch["old_stps"])
        made.scale = float(pytorch["H_diag"])
        made.moved = _vector(pytorch["d"]) * float(pytorch["t"])
    else:
        raise StateError(
            f"LBFGS.load_state_dict: the state must have {', '.join(vars(made))}, or be PyTorch's; got "
            f"{sorted(map(str, cast('Any', stored))) if isinstance(stored, Mapping) else stored}; load it into "
            "the kind of optimiser that it was saved from"
        )
    made.steps, made.scale = operator.index(made.steps), float(made.scale)
    made.gradient, made.moved = (None if v is None else _vector(v) for v in (made.gradient, made.moved))
    made.changes, made.moves = [_vector(v) for v in made.changes], [_vector(v) for v in made.moves]
    vectors = [v for v in (made.gradient, made.moved, *made.changes, *made.moves) if v is not None]
    wrong = [v.shape for v in vectors if v.shape != (size,)]
    if wrong or len(made.changes) != len(made.moves):
        raise StateError(
            f"LBFGS.load_state_dict: vectors must have {size} numbers, as many as the parameters; got "
            f"{list(wrong[0]) if wrong else 'steps and gradient changes of other lengths'}"
        )
    return made


PYTORCH = {"n_iter", "prev_flat_grad", "old_dirs", "old_stps", "H_diag", "d", "t"}


def _vector(x: Any) -> Any:
    """A saved vector, of any library, as a tensor."""
    return _flat(array_of(x))


def _flat(x: Any) -> Any:
    """The numbers of a tensor in float64, flattened."""
    stored: Any = stripped(as_tensor(x, float64))
    return stored.flatten()


def _largest(x: Any) -> float:
    """The largest absolute number."""
    return float(abs_(x).max())


class _Memory:
    """The last steps, and the changes of the gradient over them."""

    def __init__(self) -> None:
        self.steps = 0
        self.gradient: Any | None = None
        self.moved: Any | None = None
        self.changes: list[Any] = []
        self.moves: list[Any] = []
        self.scale = 1.0

    def direction(self, gradient: Any, limit: int) -> Any:
        """−H · gradient for the approximated inverse Hessian H, by the two-loop recursion."""
        self.steps += 1
        if self.gradient is not None and self.moved is not None:
            change, move = gradient - self.gradient, self.moved
            curvature = float(change @ move)
            if curvature > 1e-10:
                self.changes, self.moves = [*self.changes, change][-limit:], [*self.moves, move][-limit:]
                self.scale = curvature / float(change @ change)
        q, factors = -gradient, list[float]()
        for change, move in zip(reversed(self.changes), reversed(self.moves), strict=True):
            factors.append(float(move @ q) / float(change @ move))
            q = q - change * factors[-1]
        q = q * self.scale
        for change, move, factor in zip(self.changes, self.moves, reversed(factors), strict=True):
            q = q + move * (factor - float(change @ q) / float(change @ move))
        return q


class _LineSearch:
    """A line search for a step that satisfies the strong Wolfe conditions (Nocedal and Wright 2006, 3.5 and 3.6)."""

    decrease, curvature = 1e-4, 0.9
    change = 1e-9

    def __init__(self, at: Callable[[float], tuple[float, Any]], direction: Any) -> None:
        self.at, self.direction, self.used = at, direction, 0

    def _point(self, step: float) -> Point:
        loss, gradient = self.at(step)
        self.used += 1
        return step, loss, gradient, float(gradient @ self.direction)

    def _too_high(self, point: Point, origin: Point) -> bool:
        return point[1] > origin[1] + self.decrease * point[0] * origin[3]

    def _flat(self, point: Point, origin: Point) -> bool:
        return abs(point[3]) <= -self.curvature * origin[3]

    def run(self, step: float, origin: Point, limit: int) -> tuple[float, float, Any, int]:
        """The step, the loss and gradient there, and the number of evaluations."""
        low, high = self._bracket(step, origin, limit)
        if high is not None:
            low = self._zoom(low, high, origin, limit)
        return low[0], low[1], low[2], self.used

    def _bracket(self, step: float, origin: Point, limit: int) -> tuple[Point, Point | None]:
        """Two points with a good one between them, the lower first; or one good point."""
        before, now = origin, self._point(step)
        for k in range(limit):
            if self._too_high(now, origin) or (k > 0 and now[1] >= before[1]) or now[3] >= 0:
                if not self._too_high(now, origin) and not (k > 0 and now[1] >= before[1]) and self._flat(now, origin):
                    return now, None
                return (before, now) if before[1] <= now[1] else (now, before)
            if self._flat(now, origin):
                return now, None
            bounds = now[0] + 0.01 * (now[0] - before[0]), now[0] * 10.0
            before, now = now, self._point(_cubic(before, now, bounds))
        return (origin, now) if origin[1] <= now[1] else (now, origin)

    def _zoom(self, low: Point, high: Point, origin: Point, limit: int) -> Point:
        """Narrow the bracket until its lower end is good."""
        stuck, size = False, _largest(self.direction)
        while self.used <= limit and abs(high[0] - low[0]) * size >= self.change:
            left, right = sorted((low[0], high[0]))
            step = _cubic(low, high, (left, right))
            margin = 0.1 * (right - left)
            if min(right - step, step - left) < margin:
                if stuck or step >= right or step <= left:
                    step = right - margin if abs(step - right) < abs(step - left) else left + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            now = self._point(step)
            if self._too_high(now, origin) or now[1] >= low[1]:
                high = now
                if high[1] < low[1]:
                    low, high = high, low
                continue
            if self._flat(now, origin):
                return now
            if now[3] * (high[0] - low[0]) >= 0:
                high = low
            low = now
        return low


def _cubic(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """The minimum of the cubic through two points and their slopes, within bounds; the midpoint if there is none."""
    if b[0] < a[0]:
        a, b = b, a
    if a[0] == b[0]:
        return (bounds[0] + bounds[1]) / 2
    d1 = a[3] + b[3] - 3 * (a[1] - b[1]) / (a[0] - b[0])
    square = d1 * d1 - a[3] * b[3]
    if not square >= 0:
        return (bounds[0] + bounds[1]) / 2
    d2 = math.sqrt(square)
    below = b[3] - a[3] + 2 * d2
    if below == 0:
        return (bounds[0] + bounds[1]) / 2
    found = b[0] - (b[0] - a[0]) * ((b[3] + d2 - d1) / below)
    return min(max(found, bounds[0]), bounds[1])
