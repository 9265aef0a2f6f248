"""Schedules that also move the momentum, that combine other schedules, or that read a monitored value."""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from nacre.base.errors import ArgumentError, StateError
from nacre.optim.optimiser import Optimizer
from nacre.optim.rate import Schedule, no_numbers, rates, require_state

__all__ = [
    "ChainedScheduler",
    "CyclicLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "SequentialLR",
]

PerGroup = float | Sequence[float]

# ---- schedules that move the momentum too


class _Cycling(Schedule):
    """A schedule that moves `momentum`, or the first of `betas`, in the opposite direction of the learning rate."""

    def __init__(self, optimizer: Optimizer, cycle_momentum: bool) -> None:
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.entry = next((name for name in ("betas", "momentum") if name in optimizer.defaults), "")
            if not self.entry:
                raise ArgumentError(
                    f"{type(self).__name__}: cycle_momentum needs an optimiser with momentum or betas; got "
                    f"{type(optimizer).__name__}; pass cycle_momentum=False"
                )
            for group in optimizer.param_groups:
                group.vary(self.entry)
        super().__init__(optimizer)

    def momentum(self, epoch: int, group: int) -> float:
        """The momentum of a group after `epoch` steps."""
        raise NotImplementedError

    def _set(self) -> None:
        super()._set()
        if self.cycle_momentum:
            for k, group in enumerate(self.optimizer.param_groups):
                found = self.momentum(self.last_epoch, k)
                group[self.entry] = (found, *group["betas"][1:]) if self.entry == "betas" else found


def _numbers(kind: str, optimizer: Optimizer, given: PerGroup) -> list[float]:
    """One number for each group."""
    count = len(optimizer.param_groups)
    listed = [float(given)] * count if isinstance(given, int | float) else [float(v) for v in given]
    if len(listed) != count:
        raise ArgumentError(f"{kind}: pass a number for each of {count} groups; got {len(listed)}")
    return listed


class OneCycleLR(_Cycling):
    """From max_lr / div_factor up to max_lr, then down to the start over final_div_factor (Smith and Topin 2018).

    The way up takes the share pct_start of total_steps (or of epochs · steps_per_epoch).  With `three_phase` the rate
    falls to the start as fast as it rose, and then further.  Momentum moves in the opposite direction, from
    max_momentum to base_momentum and back.  Raises ArgumentError for settings out of range, and for more steps than
    total_steps.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=0.1, momentum=0.9)
    >>> schedule = optim.OneCycleLR(opt, max_lr=1.0, total_steps=11, pct_start=0.5)
    >>> rates = [(schedule.step(), schedule.get_last_lr()[0])[1] for _ in range(10)]
    >>> round(max(rates), 2), round(min(rates), 6)
    (0.98, 4e-06)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: PerGroup,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: PerGroup = 0.85,
        max_momentum: PerGroup = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if total_steps is None or total_steps < 1:
            raise ArgumentError(
                "OneCycleLR: total_steps, or epochs and steps_per_epoch, must be positive; got "
                f"total_steps={total_steps!r}"
            )
        if not 0.0 <= pct_start <= 1.0 or anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f'OneCycleLR: pct_start must be in [0, 1] and anneal_strategy "cos" or "linear"; got {pct_start}, '
                f"{anneal_strategy!r}"
            )
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        self.max_lrs = _numbers("OneCycleLR", optimizer, max_lr)
        if not (div_factor > 0 and final_div_factor > 0):
            raise ArgumentError(
                f"OneCycleLR: div_factor and final_div_factor must be above 0; got {div_factor} and "
                f"{final_div_factor}; write 1 to leave the rate as it is"
            )
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        self.momenta = [_numbers("OneCycleLR", optimizer, m) for m in (base_momentum, max_momentum)]
        up = pct_start * total_steps - 1
        self.ends = [up, 2 * pct_start * total_steps - 2, total_steps - 1] if three_phase else [up, total_steps - 1]
        for group, high in zip(optimizer.param_groups, self.max_lrs, strict=True):
            group["lr"] = group["initial_lr"] = high / div_factor
        super().__init__(optimizer, cycle_momentum)

    def _between(self, epoch: int, values: Sequence[float]) -> float:
        """The value at an epoch, between values at the ends of the phases."""
        if epoch > self.total_steps:
            raise ArgumentError(
                f"OneCycleLR: the schedule has {self.total_steps} steps; got step {epoch}; raise total_steps"
            )
        last = len(self.ends) - 1
        phase = next((k for k, end in enumerate(self.ends) if epoch <= end), last)
        start = self.ends[phase - 1] if phase else 0.0
        part = (epoch - start) / (self.ends[phase] - start)
        if self.anneal_strategy == "linear":
            return values[phase] + (values[phase + 1] - values[phase]) * part
        return values[phase + 1] + (values[phase] - values[phase + 1]) / 2.0 * (math.cos(math.pi * part) + 1)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """Up, down, and further down."""
        high = self.max_lrs[group]
        start = high / self.div_factor
        between = [start] * (len(self.ends) - 2)
        return self._between(epoch, [start, high, *between, start / self.final_div_factor])

    def momentum(self, epoch: int, group: int) -> float:
        """Down, and up again."""
        low, high = (m[group] for m in self.momenta)
        return self._between(epoch, [high, low, *[high] * (len(self.ends) - 1)])


class CyclicLR(_Cycling):
    """From base_lr up to max_lr and down again, repeatedly (Smith 2017); momentum moves in the opposite direction.

    Modes are "triangular", "triangular2" (each cycle half as high) and "exp_range" (times gamma^step).  Raises
    ArgumentError for another mode, or unless step_size_up is positive.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=0.0, momentum=0.9)
    >>> schedule = optim.CyclicLR(opt, 0.0, 1.0, step_size_up=2); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: PerGroup,
        max_lr: PerGroup,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        cycle_momentum: bool = True,
        base_momentum: PerGroup = 0.8,
        max_momentum: PerGroup = 0.9,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") or step_size_up < 1:
            raise ArgumentError(
                'CyclicLR: mode must be "triangular", "triangular2" or "exp_range", and step_size_up positive; got '
                f"{mode!r}, {step_size_up}"
            )
        self.up, self.down = step_size_up, step_size_up if step_size_down is None else step_size_down
        self.mode, self.gamma = mode, gamma
        self.lows, self.highs = (_numbers("CyclicLR", optimizer, v) for v in (base_lr, max_lr))
        self.momenta = [_numbers("CyclicLR", optimizer, m) for m in (base_momentum, max_momentum)]
        for group, low in zip(optimizer.param_groups, self.lows, strict=True):
            group["lr"] = group["initial_lr"] = low
        super().__init__(optimizer, cycle_momentum)

    def _height(self, epoch: int) -> float:
        """The height in the cycle, from 0 to 1, scaled by the mode."""
        cycle, place = divmod(epoch, self.up + self.down)
        height = place / self.up if place <= self.up else (self.up + self.down - place) / self.down
        return height * {"triangular": 1.0, "triangular2": 0.5**cycle, "exp_range": self.gamma**epoch}[self.mode]

    def rate(self, base: float, epoch: int, group: int) -> float:
        """Between the low rate and the high one."""
        return self.lows[group] + (self.highs[group] - self.lows[group]) * self._height(epoch)

    def momentum(self, epoch: int, group: int) -> float:
        """Between the high momentum and the low one."""
        low, high = (m[group] for m in self.momenta)
        return high - (high - low) * self._height(epoch)


# ---- schedules of schedules


class SequentialLR(Schedule):
    """Several schedules in sequence: each restarts when the number of steps reaches its milestone.

    Raises ArgumentError unless there is one milestone fewer than schedules, all of one optimiser.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> parts = [optim.LinearLR(opt, 0.5, total_iters=2), optim.ExponentialLR(opt, 0.5)]
    >>> schedule = optim.SequentialLR(opt, parts, milestones=[2])
    >>> [(schedule.get_last_lr()[0], schedule.step())[0] for _ in range(4)]
    [0.5, 0.75, 1.0, 0.5]
    """

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[Schedule], milestones: Sequence[int]) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} milestones; got "
                f"{len(milestones)}"
            )
        self.schedulers, self.milestones = _of_one("SequentialLR", optimizer, schedulers), list(milestones)
        _begin_anew(optimizer)
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """The rate of the current schedule for the steps since its milestone."""
        turn = bisect_right(self.milestones, epoch)
        since = epoch - (self.milestones[turn - 1] if turn else 0)
        return self.schedulers[turn].rate(base, since, group)


class ChainedScheduler(Schedule):
    """Several schedules at once: each starts from the rate that the one before it set, so their factors multiply.

    Raises ArgumentError without schedules, and for schedules of several optimisers.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> parts = [optim.ConstantLR(opt, 0.5, total_iters=9), optim.ExponentialLR(opt, 0.5)]
    >>> schedule = optim.ChainedScheduler(parts); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[Schedule], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ArgumentError("ChainedScheduler: at least one schedule is required; got none")
        owner = optimizer or schedulers[0].optimizer
        self.schedulers = _of_one("ChainedScheduler", owner, schedulers)
        self.reached: dict[tuple[float, int], tuple[int, float]] = {}  # by base and group: a step, and the rate there
        _begin_anew(owner)
        super().__init__(owner)

    def rate(self, base: float, epoch: int, group: int) -> float:
        """The rate that the schedules make of the previous step's rate."""
        done, lr = self.reached.get((base, group), (-1, base))
        if done > epoch:
            done, lr = -1, base
        for k in range(done + 1, epoch + 1):
            lr = self.chained(lr, base, k, group)
        self.reached[base, group] = epoch, lr
        return lr

    def chained(self, lr: float, base: float, epoch: int, group: int) -> float:
        """The rate after a step, from the previous rate: each schedule continues from the result of the one before."""
        for schedule in self.schedulers:
            lr = schedule.chained(lr, base, epoch, group)
        return lr


def _of_one(kind: str, optimizer: Optimizer, schedulers: Sequence[Schedule]) -> list[Schedule]:
    """The schedules, checked: all of one optimiser, with rates in closed form."""
    listed: list[Any] = list(schedulers)
    wrong = [type(s).__name__ for s in listed if not isinstance(s, Schedule)]
    if wrong:
        raise ArgumentError(
            f"{kind}: schedules must not need a monitored value; got {', '.join(wrong)}; step it separately"
        )
    if any(s.optimizer is not optimizer for s in listed):
        raise ArgumentError(f"{kind}: all schedules must have the given optimiser; got another one")
    return listed


def _begin_anew(optimizer: Optimizer) -> None:
    """Undo the rates that the inner schedules set when they were made."""
    for group in optimizer.param_groups:
        group["lr"] = group.get("initial_lr", group["lr"])


class ReduceLROnPlateau:
    """Multiplies lr by a factor when a monitored value has not improved for more than `patience` steps.

    Lower is better in mode "min", higher in mode "max".  An improvement must be a share ("rel") or an amount ("abs") of
    at least `threshold`.  Raises ArgumentError for settings out of range.

    >>> opt = optim.SGD([nn.Parameter(1.0)], lr=1.0)
    >>> schedule = optim.ReduceLROnPlateau(opt, factor=0.5, patience=1)
    >>> for loss in (3.0, 3.0, 3.0): schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: PerGroup = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if not factor < 1.0 or mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                'ReduceLROnPlateau: factor must be below 1, mode "min" or "max", and threshold_mode "rel" or "abs"; '
                f"got {factor}, {mode!r}, {threshold_mode!r}"
            )
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = _numbers("ReduceLROnPlateau", optimizer, min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def step(self, metrics: Any) -> None:
        """Advance by one step, with the current value."""
        current = float(metrics)
        self.last_epoch += 1
        if self._better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            for k, group in enumerate(self.optimizer.param_groups):
                least = self.min_lrs[min(k, len(self.min_lrs) - 1)]  # a group added later has the last one's
                new = max(group["lr"] * self.factor, least)
                if group["lr"] - new > self.eps:
                    group["lr"] = new

    def _better(self, current: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * current < sign * self.best * (1 - sign * self.threshold)
        return sign * current < sign * self.best - self.threshold

    def get_last_lr(self) -> list[float]:
        """The current learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state that resuming needs."""
        return {"kind": type(self).__name__} | {k: getattr(self, k) for k in _PLATEAU} | {"lrs": self.get_last_lr()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`, or PyTorch's; the groups get their rates from then.

        Raises StateError for the state of another kind of schedule, or for other groups; then nothing is changed.
        """
        require_state("ReduceLROnPlateau", saved, _PLATEAU)
        try:
            lrs = rates(saved.get("lrs", saved.get("_last_lr", self.get_last_lr())))
            restored = {k: float(saved[k]) if k == "best" else operator.index(saved[k]) for k in _PLATEAU}
        except (TypeError, ValueError, OverflowError) as fault:
            raise no_numbers("ReduceLROnPlateau", fault) from None
        count = len(self.optimizer.param_groups)
        if len(lrs) != count:
            raise StateError(
                f"ReduceLROnPlateau.load_state_dict: the state must have a rate for each group, {count}; got "
                f"{len(lrs)}; load it for an optimiser with the groups that it was saved with"
            )
        for k in _PLATEAU:
            setattr(self, k, restored[k])
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            group["lr"] = lr


_PLATEAU = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")
