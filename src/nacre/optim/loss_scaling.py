"""Dynamic loss scaling: gradients that float16 can represent, and steps that an overflow skips.

The state is in variables, and a skipped step is a selection, so a compiled training step scales, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Final, TypeVar, cast

from nacre.api.operands import as_tensor, constant, require_inside, spread
from nacre.api.primitives import pointwise, reduce
from nacre.base import tree
from nacre.base.arguments import is_whole, require_flag, shown
from nacre.base.dtypes import bool_, float32, float64, int64
from nacre.base.errors import ArgumentError, DTypeError, KindError, StateError
from nacre.base.state import without_autocast
from nacre.optim.group import committing_if
from nacre.optim.optimiser import Optimizer
from nacre.trace.modes import gradients
from nacre.trace.value import is_concrete, stripped
from nacre.trace.variable import Variable

__all__ = ["GradScaler"]

LEAST, GREATEST = 2.0**-126, 2.0**126  # of scales, so that the inverse is a normal float32
MOST = 2**63 - 1  # of intervals
READY, UNSCALED, STEPPED = range(3)  # the stages of an optimiser between two calls of `update`
_KEYS = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")

T = TypeVar("T")


class _Progress:
    """What happened to an optimiser's gradients since the last `update`."""

    def __init__(self) -> None:
        self.finite = Variable(constant(True, bool_), name="finite")
        self.stage = Variable(constant(READY, int64), name="stage")

    def require(self, most: int, text: str) -> None:
        """Raise StateError if the stage is a later one, at once or when a compiled function runs."""
        require_inside(self.stage.value, READY, most + 1, StateError, text)


class GradScaler:
    """Scales losses for `autocast` to float16, with PyTorch's protocol.

    `scale(loss).backward()` gives gradients times the scale, and `step(optimizer)` divides them by it.  If a gradient
    is infinite or NaN, `step` changes nothing, and `update()` multiplies the scale by `backoff_factor`.  After
    `growth_interval` steps without this, `update` multiplies it by `growth_factor`.  `unscale_(optimizer)` before
    `step` lets you clip.  With powers of two, as by default, scaling changes no bits but those of overflow and
    underflow.

    All of it may be part of a compiled function, which also sees later changes of factors and interval.  The scale
    stays between 2⁻¹²⁶ and 2¹²⁶.  With `enabled=False`, it does nothing, and `step` only steps.  Raises ArgumentError
    for factors and intervals out of range.

    >>> w = nn.Parameter([1.0])
    >>> opt, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(init_scale=4.0)
    >>> for factor in (1.0, float("inf")):
    ...     opt.zero_grad()
    ...     scaler.scale((w * factor).sum()).backward()
    ...     scaler.step(opt); scaler.update()
    ...     print(w.tolist(), scaler.get_scale())
    [0.5] 4.0
    [0.5] 2.0
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        require_flag(enabled, "GradScaler")
        self._enabled = bool(enabled)
        if isinstance(init_scale, str):
            raise KindError(
                f"GradScaler: init_scale must be a number; got {init_scale!r}; write GradScaler(), without a device"
            )
        factors = {"growth_factor": growth_factor, "backoff_factor": backoff_factor}
        _check("GradScaler", init_scale=init_scale, **factors, growth_interval=growth_interval)
        self._scale = Variable(constant(float(init_scale), float32), name="scale")
        self._growth = Variable(constant(float(growth_factor), float64), name="growth factor")
        self._backoff = Variable(constant(float(backoff_factor), float64), name="backoff factor")
        self._interval = Variable(constant(int(growth_interval), int64), name="growth interval")
        self._good = Variable(constant(0, int64), name="good steps")
        self._progress: dict[Optimizer, _Progress] = {}

    # ---- one step

    def scale(self, outputs: T) -> T:
        """A loss, or a tree of losses, times the scale, in float32 or the loss's wider dtype.

        >>> optim.GradScaler(init_scale=8.0).scale(nc.tensor(0.5)).item()
        4.0
        """
        if not self._enabled:
            return outputs
        leaves, structure = tree.flatten(outputs)
        return cast("T", without_autocast(lambda: tree.unflatten(structure, list(map(self._scaled, leaves)))))

    def _scaled(self, loss: Any) -> Any:
        held = as_tensor(loss)
        if not held.type.dtype.is_float:
            raise DTypeError(f"GradScaler.scale: losses must be floating-point; got {held.type}")
        wide = as_tensor(held, held.type.dtype.arithmetic)
        return pointwise.mul(wide, spread(as_tensor(self._scale.value, wide.type.dtype), wide.type.shape))

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, before `step` does.

        Raises StateError if this or `step` was called since the last `update`, DTypeError for gradients of float16 or
        bfloat16.

        >>> w = nn.Parameter([1.0]); opt = optim.SGD([w], lr=0.5); scaler = optim.GradScaler()
        >>> scaler.scale((w * 3.0).sum()).backward()
        >>> scaler.unscale_(opt); w.grad.tolist()
        [3.0]
        """
        if not self._enabled:
            return
        progress = self._of(optimizer, "unscale_")
        progress.require(
            READY,
            "GradScaler.unscale_: gradients must be unscaled once between two calls of update, before step; got a "
            "call after unscale_ or step; call update() after step()",
        )
        self._unscale(optimizer, progress)

    def step(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale, unless `unscale_` did, and step if all of them are finite.

        Raises StateError if it was called since the last `update`, KindError for anything but an optimiser.

        >>> w = nn.Parameter([1.0]); opt = optim.SGD([w], lr=0.5); scaler = optim.GradScaler()
        >>> scaler.scale((w * 2.0).sum()).backward(); scaler.step(opt); w.tolist()
        [0.0]
        """
        if not self._enabled:
            optimizer.step()
            return
        progress = self._of(optimizer, "step")
        progress.require(
            UNSCALED,
            "GradScaler.step: an optimiser must step once between two calls of update; got a second call; call "
            "update() after step()",
        )
        if not self._is_unscaled(progress):
            self._unscale(optimizer, progress)
        with committing_if(progress.finite.value):
            optimizer.step()
        progress.stage.assign(constant(STEPPED, int64))

    def update(self, new_scale: float | None = None) -> None:
        """Lower the scale after an overflow, raise it after enough steps without one, or set a new one.

        >>> scaler = optim.GradScaler(); scaler.update(1024.0); scaler.get_scale()
        1024.0
        """
        if not self._enabled:
            return
        if new_scale is not None:
            _check("GradScaler.update", new_scale=new_scale)
        with gradients(False):
            without_autocast(lambda: self._update(new_scale))

    def _update(self, new_scale: float | None) -> None:
        finite: Any = constant(True, bool_)
        for progress in self._progress.values():
            finite = pointwise.and_(finite, progress.finite.value)
            progress.finite.assign(constant(True, bool_))
            progress.stage.assign(constant(READY, int64))
        scale, good = self._scale.value, pointwise.add(self._good.value, constant(1, int64))
        if new_scale is not None:
            self._scale.assign(constant(float(new_scale), float32))
            return
        long = pointwise.ge(good, self._interval.value)
        growth, backoff = (as_tensor(x.value, float32) for x in (self._growth, self._backoff))
        more = pointwise.minimum(pointwise.mul(scale, growth), constant(GREATEST, float32))
        less = pointwise.maximum(pointwise.mul(scale, backoff), constant(LEAST, float32))
        self._scale.assign(pointwise.select(finite, pointwise.select(long, more, scale), less))
        reset = pointwise.or_(long, pointwise.not_(finite))
        self._good.assign(pointwise.select(reset, constant(0, int64), good))

    # ---- gradients

    def _of(self, optimizer: Any, method: str) -> _Progress:
        if not isinstance(optimizer, Optimizer):
            raise KindError(f"GradScaler.{method}: an optimiser is required; got {shown(optimizer)}")
        if optimizer not in self._progress:
            self._progress[optimizer] = _Progress()
        return self._progress[optimizer]

    def _is_unscaled(self, progress: _Progress) -> bool:
        """Whether it is known that the gradients are unscaled."""
        held = progress.stage.value
        return is_concrete(held) and int(held) == UNSCALED

    def _unscale(self, optimizer: Optimizer, progress: _Progress) -> None:
        with gradients(False):
            without_autocast(lambda: self._divide(optimizer, progress))

    def _divide(self, optimizer: Optimizer, progress: _Progress) -> None:
        one = constant(1.0, float32)
        done = pointwise.eq(progress.stage.value, constant(UNSCALED, int64))
        factor = pointwise.select(done, one, pointwise.div(one, self._scale.value))
        finite: Any = progress.finite.value
        for p in (p for group in optimizer.param_groups for p in group.params):
            if p.gradient is None:
                continue
            g: Any = stripped(p.gradient)
            if g.type.dtype.is_widened:
                raise DTypeError(
                    f"GradScaler: gradients must be float32 or wider; got {g.type} for {p.name!r}; autocast leaves "
                    "parameters in float32, so leave out model.half()"
                )
            finite = pointwise.and_(finite, reduce.all_(pointwise.isfinite(g), range(len(g.type.shape))))
            p.gradient = pointwise.mul(g, spread(as_tensor(factor, g.type.dtype), g.type.shape))
        progress.finite.assign(finite)
        progress.stage.assign(constant(UNSCALED, int64))

    # ---- factors

    @property
    def growth_factor(self) -> float:
        """The factor by which the scale grows.  It may be set at any time.

        >>> scaler = optim.GradScaler(); scaler.growth_factor = 4.0; scaler.growth_factor
        4.0
        """
        return float(self._growth.value)

    @growth_factor.setter
    def growth_factor(self, value: float) -> None:
        _check("GradScaler", growth_factor=value)
        self._growth.assign(constant(float(value), float64))

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows.

        >>> optim.GradScaler(growth_factor=4.0).get_growth_factor()
        4.0
        """
        return self.growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows.  Raises ArgumentError if it is out of range.

        >>> scaler = optim.GradScaler(); scaler.set_growth_factor(4.0); scaler.get_growth_factor()
        4.0
        """
        self.growth_factor = new_factor

    @property
    def backoff_factor(self) -> float:
        """The factor by which an overflow lowers the scale.  It may be set at any time.

        >>> scaler = optim.GradScaler(); scaler.backoff_factor = 0.25; scaler.backoff_factor
        0.25
        """
        return float(self._backoff.value)

    @backoff_factor.setter
    def backoff_factor(self, value: float) -> None:
        _check("GradScaler", backoff_factor=value)
        self._backoff.assign(constant(float(value), float64))

    def get_backoff_factor(self) -> float:
        """The factor by which an overflow lowers the scale.

        >>> optim.GradScaler(backoff_factor=0.25).get_backoff_factor()
        0.25
        """
        return self.backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which an overflow lowers the scale.  Raises ArgumentError if it is out of range.

        >>> scaler = optim.GradScaler(); scaler.set_backoff_factor(0.25); scaler.get_backoff_factor()
        0.25
        """
        self.backoff_factor = new_factor

    @property
    def growth_interval(self) -> int:
        """The number of steps without an overflow before the scale grows.  It may be set at any time.

        >>> scaler = optim.GradScaler(); scaler.growth_interval = 100; scaler.growth_interval
        100
        """
        return int(self._interval.value)

    @growth_interval.setter
    def growth_interval(self, value: int) -> None:
        _check("GradScaler", growth_interval=value)
        self._interval.assign(constant(int(value), int64))

    def get_growth_interval(self) -> int:
        """The number of steps without an overflow before the scale grows.

        >>> optim.GradScaler(growth_interval=100).get_growth_interval()
        100
        """
        return self.growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps before the scale grows.  Raises ArgumentError if it is out of range.

        >>> scaler = optim.GradScaler(); scaler.set_growth_interval(100); scaler.get_growth_interval()
        100
        """
        self.growth_interval = new_interval

    # ---- state

    def get_scale(self) -> float:
        """The scale as a number; 1.0 if scaling is off.

        >>> optim.GradScaler().get_scale()
        65536.0
        """
        return float(self._scale.value) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether losses are scaled.

        >>> optim.GradScaler(enabled=False).is_enabled()
        False
        """
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, the settings and the count of steps since the scale changed, in PyTorch's form.

        >>> optim.GradScaler().state_dict()["scale"]
        65536.0
        """
        if not self._enabled:
            return {}
        numbers = self.get_scale(), self.growth_factor, self.backoff_factor, self.growth_interval
        return dict(zip(_KEYS, (*numbers, int(self._good.value)), strict=True))

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`, or that of PyTorch's class.

        Raises StateError for an incomplete state; then nothing is changed.

        >>> scaler = optim.GradScaler(); scaler.load_state_dict(optim.GradScaler(2.0).state_dict())
        >>> scaler.get_scale()
        2.0
        """
        if not self._enabled:
            return
        missing = [k for k in _KEYS if k not in saved]
        if missing:
            raise StateError(
                f"GradScaler.load_state_dict: the state must have {', '.join(_KEYS)}; {missing[0]} is missing; if it "
                "is that of a scaler with enabled=False, make this one so, too"
            )
        settings = {k: saved[k] for k in _KEYS[:-1]}
        _check("GradScaler.load_state_dict", **settings)
        good = saved[_KEYS[-1]]
        if not is_whole(good) or good < 0:
            raise StateError(f"GradScaler.load_state_dict: _growth_tracker must be a count; got {shown(good)}")
        scale, self.growth_factor, self.backoff_factor, self.growth_interval = settings.values()
        self._scale.assign(constant(float(scale), float32))
        self._good.assign(constant(int(good), int64))


def _scale_fits(x: Any) -> bool:
    return LEAST <= x <= GREATEST


_SCALE = _scale_fits, "from 2^-126 to 2^126"
RANGES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "init_scale": _SCALE,
    "new_scale": _SCALE,
    "scale": _SCALE,
    "growth_factor": (lambda x: 1.0 < x < math.inf, "above 1"),
    "backoff_factor": (lambda x: 0.0 < x < 1.0, "between 0 and 1"),
    "growth_interval": (lambda x: is_whole(x) and 1 <= x <= MOST, "a whole number from 1 on"),
}


def _check(operation: str, **given: Any) -> None:
    """Raise ArgumentError for a scale, factors or an interval out of range."""
    for name, value in given.items():
        fits, wording = RANGES[name]
        if not isinstance(value, Real) or not fits(value):
            raise ArgumentError(f"{operation}: {name} must be {wording}; got {shown(value)}")
