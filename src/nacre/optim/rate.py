"""Schedules of the learning rate.

A schedule computes each group's rate in closed form from the number of steps, so it can resume anywhere.  If several
schedules set the rate of one optimiser, or you set it yourself, each schedule continues from the current rate.
Variables hold the rates, and the momenta that two schedules move, so a compiled training step stays valid.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from nacre.base.errors import ArgumentError, StateError
from nacre.optim.optimiser import Optimizer

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "Schedule",
    "StepLR",
    "warm_up",
]


class Schedule:
    """Sets each group's learning rate from the number of `step` calls.  A subclass defines `rate`.

    A single schedule sets the rate of its formula.  If another schedule has set the rate, or you have, it continues
    from there: it multiplies the distance between the rate and `floor` by the relative change of its own rate.  Several
    schedules that are stepped in turn therefore combine as in PyTorch: their factors multiply.

    >>> class Halving(optim.Schedule):
    ...     def rate(self, base, epoch, group): return base / 2**epoch
    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=0.1)
    >>> schedule = Halving(opt)
    >>> schedule.step(); opt.param_groups[0]["lr"]
    0.05
    >>> opt.param_groups[0]["lr"] = 1.0
    >>> schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    floor = 0.0  # the rate at the end of the schedule

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lrs: list[float] = []
        self.given: list[float] = []  # the rates that this schedule has set last
        self.alone: list[bool] = []  # whether only this schedule has set the rate so far
        self.last_epoch = 0
        self._set()

    def rate(self, base: float, epoch: int, group: int) -> float:
        """The learning rate of a group after `epoch` steps, from its initial rate `base`."""
        raise NotImplementedError

    def chained(self, lr: float, base: float, epoch: int, group: int) -> float:
        """The rate after a step, from the current rate, even if something else has set it."""
        now = self.rate(base, epoch, group)
        before = self.rate(base, epoch - 1, group) if epoch else base
        if before == self.floor:
            return lr + (now - before)
        return self.floor + (lr - self.floor) * ((now - self.floor) / (before - self.floor))

    def step(self) -> None:
        """Advance by one step."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for k, group in enumerate(self.optimizer.param_groups):
            lr = float(group["lr"])
            if k == len(self.base_lrs):  # at first, and for a group added later
                base = float(group.setdefault("initial_lr", lr))
                self.base_lrs.append(base)
                self.given.append(base if self.last_epoch == 0 else math.nan)
                self.alone.append(True)
            self.alone[k] = self.alone[k] and lr == self.given[k]
            group["lr"] = self.given[k] = self._next(k, lr)

    def _next(self, group: int, lr: float) -> float:
        """The next rate of a group, from its current rate."""
        base = self.base_lrs[group]
        try:
            return (
                self.rate(base, self.last_epoch, group)
                if self.alone[group]
                else self.chained(lr, base, self.last_epoch, group)
            )
        except (IndexError, ArgumentError) as fault:
            if not isinstance(fault.__cause__ or fault, IndexError):
                raise
            raise ArgumentError(
                f"{type(self).__name__}: the schedule needs an argument for each group; group {group} was added "
                "later; make the schedule when the optimiser has all its groups"
            ) from None

    def get_last_lr(self) -> list[float]:
        """The current learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state that resuming needs."""
        return {
            "kind": type(self).__name__,
            "last_epoch": self.last_epoch,
            "base_lrs": list(self.base_lrs),
            "given": list(self.given),
            "alone": list(self.alone),
            "lrs": self.get_last_lr(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`, or PyTorch's; the groups get their rates from then.

        Raises StateError for the state of another kind of schedule, or for other groups; then nothing is changed.
        """
        kind, count = type(self).__name__, len(self.optimizer.param_groups)
        require_state(kind, saved, ("last_epoch", "base_lrs"))
        try:
            epoch, bases = operator.index(saved["last_epoch"]), [float(v) for v in saved["base_lrs"]]
            lrs = rates(saved.get("lrs", saved.get("_last_lr", bases)))
            given = [float(v) for v in saved.get("given", lrs)]
            alone = [bool(v) for v in saved.get("alone", [False] * count)]
        except (TypeError, ValueError, OverflowError) as fault:
            raise no_numbers(kind, fault) from None
        sizes = {len(bases), len(lrs), len(given), len(alone)}
        if sizes != {count}:
            raise StateError(
                f"{kind}.load_state_dict: the state must have a rate for each group, {count}; got {len(lrs)} and "
                f"{len(bases)} base rates; load it for an optimiser with the groups that it was saved with"
            )
        self.last_epoch, self.base_lrs, self.given, self.alone = epoch, bases, given, alone
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            group["lr"] = lr


def rates(values: Any) -> list[float]:
    """Learning rates that a group can have.  Raises ValueError, or the errors of `float`, for others."""
    found = [float(v) for v in values]
    if not all(v >= 0 for v in found):
        raise ValueError(f"a rate must not be negative; got {found}")
    return found


def no_numbers(kind: str, fault: object) -> StateError:
    """The error for a schedule's state that has something else in the place of a number."""
    return StateError(
        f"{kind}.load_state_dict: the state must hold numbers; {fault}; pass the result of its own state_dict"
    )


def require_state(kind: str, saved: object, names: Sequence[str]) -> None:
    """Raise StateError for anything but the state of a kind of schedule."""
    state: Mapping[str, Any] = cast("Any", saved) if isinstance(saved, Mapping) else {}
    missing = [name for name in names if name not in state]
    if missing or state.get("kind", kind) != kind:
        got = f"one of a {state['kind']}" if "kind" in state else f"one without {', '.join(missing)}"
        raise StateError(
            f"{kind}.load_state_dict: the state must be that of a {kind}; got {got}; pass the result of its own "
            "state_dict"
        )


class StepLR(Schedule):
    """lr · gamma^⌊epoch / step_size⌋.

    Raises ArgumentError unless step_size is positive.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.StepLR(opt, 1, gamma=0.5); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if step_size < 1:
            raise ArgumentError(f"StepLR: step_size must be positive; got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · gamma^⌊epoch / step_size⌋."""
        return base * self.gamma ** (epoch // self.step_size)


class CosineAnnealingLR(Schedule):
    """From lr down to eta_min along half a cosine over T_max steps (and up again afterwards).

    Raises ArgumentError unless T_max is positive.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.CosineAnnealingLR(opt, 2); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        if T_max < 1:
            raise ArgumentError(f"CosineAnnealingLR: T_max must be positive; got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        self.floor = eta_min
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """eta_min + ½(base − eta_min)(1 + cos(π · epoch / T_max))."""
        return self.eta_min + 0.5 * (base - self.eta_min) * (1 + _cosine(epoch, self.T_max))


def _cosine(part: int, whole: int) -> float:
    """cos(π · part / whole), exact at multiples of a right angle."""
    turn = 2 * part % (4 * whole)
    exact = {0: 1.0, whole: 0.0, 2 * whole: -1.0, 3 * whole: 0.0}
    return exact[turn] if turn in exact else math.cos(math.pi * part / whole)


class LambdaLR(Schedule):
    """lr times a function of the epoch; one function for all groups, or one for each.

    Raises ArgumentError for another number of functions than groups.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.LambdaLR(opt, optim.warm_up(4)); schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        self.lambdas = _each_function("LambdaLR", optimizer, lr_lambda)
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · f(epoch)."""
        return base * self.lambdas[group](epoch)


def _each_function(
    kind: str, optimizer: Optimizer, given: Callable[[int], float] | Sequence[Callable[[int], float]]
) -> list[Callable[[int], float]]:
    """One function for each group."""
    count = len(optimizer.param_groups)
    listed = [given] * count if callable(given) else list(given)
    if len(listed) != count:
        raise ArgumentError(f"{kind}: pass a function for each of {count} groups; got {len(listed)}")
    return listed


class MultiplicativeLR(Schedule):
    """lr times the product of a function's values at 1, 2, … up to the epoch; one function, or one for each group.

    Raises ArgumentError for another number of functions than groups.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.MultiplicativeLR(opt, lambda epoch: 0.5); schedule.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        self.lambdas = _each_function("MultiplicativeLR", optimizer, lr_lambda)
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · Π f(k)."""
        return base * math.prod(self.lambdas[group](k) for k in range(1, epoch + 1))


class MultiStepLR(Schedule):
    """lr · gamma^(the number of milestones reached).

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.MultiStepLR(opt, [1, 3], gamma=0.5); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · gamma^(milestones up to the epoch)."""
        return base * self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(Schedule):
    """lr · gamma^epoch.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.ExponentialLR(opt, 0.5); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · gamma^epoch."""
        return base * self.gamma**epoch


class ConstantLR(Schedule):
    """lr times a factor for total_iters steps, then lr.

    Raises ArgumentError for a factor outside [0, 1].

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> optim.ConstantLR(opt, 0.25, total_iters=2).get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5) -> None:
        if not 0.0 <= factor <= 1.0:
            raise ArgumentError(f"ConstantLR: factor must be in [0, 1]; got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · factor at first."""
        return base * (self.factor if epoch < self.total_iters else 1.0)


class LinearLR(Schedule):
    """lr times a factor that changes linearly from start_factor to end_factor: a warm-up by default.

    Raises ArgumentError for factors outside (0, 1], or unless total_iters is positive.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.LinearLR(opt, 0.5, total_iters=2); schedule.step(); schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0 or total_iters < 1:
            raise ArgumentError(
                f"LinearLR: factors must be in (0, 1] and total_iters positive; got {start_factor}, {end_factor}, "
                f"{total_iters}"
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · (start + (end − start) · epoch / total)."""
        part = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class PolynomialLR(Schedule):
    """lr · (1 − epoch / total_iters)^power, and 0 afterwards.

    Raises ArgumentError unless total_iters is positive.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.PolynomialLR(opt, 2, power=2.0); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        if total_iters < 1:
            raise ArgumentError(f"PolynomialLR: total_iters must be positive; got {total_iters}")
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """base · (1 − epoch / total)^power."""
        return base * (1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingWarmRestarts(Schedule):
    """From lr down to eta_min along half a cosine over T_0 steps, again over T_0 · T_mult, and so on.

    Raises ArgumentError unless T_0 and T_mult are positive.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.CosineAnnealingWarmRestarts(opt, 2); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ArgumentError(f"CosineAnnealingWarmRestarts: T_0 and T_mult must be positive; got {T_0}, {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.floor = eta_min
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """The cosine over the period that the epoch is in."""
        period = self.T_0
        while epoch >= period:
            if self.T_mult == 1:
                epoch %= period
            else:
                epoch, period = epoch - period, period * self.T_mult
        return self.eta_min + 0.5 * (base - self.eta_min) * (1 + _cosine(epoch, period))


def warm_up(steps: int, after: Callable[[int], float] = lambda epoch: 1.0) -> Callable[[int], float]:
    """A function for `LambdaLR`: linear up to 1 over `steps` steps, then another function of the steps since.

    Raises ArgumentError unless `steps` is positive.

    >>> [optim.warm_up(2)(k) for k in range(4)]
    [0.5, 1.0, 1.0, 1.0]
    """
    if steps < 1:
        raise ArgumentError(f"warm_up: steps must be positive; got {steps}")
    return lambda epoch: (epoch + 1) / steps if epoch < steps else after(epoch - steps)
