"""The base class of optimisers: groups of parameters, their states, and the step.

Variables hold all state, so a compiled training step updates it in place.  Variables hold the learning rates too, so
changing one causes no new compilation.  The other hyper-parameters belong to the signature of a compiled step.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from nacre.api.creation import zeros_like
from nacre.api.operands import as_tensor, constant, spread
from nacre.api.primitives import parts
from nacre.base.arguments import is_flag
from nacre.base.dtypes import DType, bool_, int64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.hints import listed, mark_absent
from nacre.base.porting.methods import OPTIMIZER
from nacre.base.state import STATE, without_autocast
from nacre.optim.group import Clock, ParameterGroup, commit, plain
from nacre.optim.saved import planned
from nacre.optim.states import ParameterStates
from nacre.trace.guards import renew, report
from nacre.trace.modes import gradients
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable

__all__ = [
    "Optimizer",
]


POSITIVE = ("lr", "weight_decay", "momentum", "eps", "lr_decay", "momentum_decay", "initial_accumulator_value")


def is_number(value: Any) -> bool:
    """Whether a hyper-parameter is a real number."""
    return isinstance(value, int | float | np.integer | np.floating)


def _storable(value: Any) -> bool:
    """Whether a setting is a number that converts to float, a text, or a tuple of these."""
    if isinstance(value, tuple):
        return all(map(_storable, cast("tuple[Any, ...]", value)))
    return not is_number(value) or isinstance(value, float) or abs(value) <= sys.float_info.max


Stepping = tuple[Variable, Any]  # a parameter and its gradient
Updated = tuple[Any, dict[str, Any]]  # the new value of a parameter, and of its state by name


class Optimizer:
    """Updates parameters from their gradients: `loss.backward(); opt.step(); opt.zero_grad()`.

    `params` is an iterable of parameters, or of dicts with "params" and their own hyper-parameters.  A subclass defines
    `update`, which computes the new value and the new state of a parameter from its gradient.

    Raises ArgumentError without parameters, for a parameter that occurs twice, and for unknown hyper-parameters.

    >>> class SignDescent(optim.Optimizer):
    ...     def __init__(self, params, lr=0.1): super().__init__(params, {"lr": lr})
    ...     def scalars(self, group, count): return {"lr": group.rate.value}
    ...     def fresh(self, p, group): return {}
    ...     def update(self, p, g, state, scalars, group): return p - scalars["lr"] * nc.sign(g), {}
    >>> p = nn.Parameter([1.0, -2.0])
    >>> opt = SignDescent([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); p.tolist()
    [0.5, -1.5]
    """

    occasional: frozenset[str] = frozenset()  # names of state that a parameter has only with some settings
    optional: frozenset[str] = frozenset()  # names of state that may be missing when it is loaded
    decoupled = False  # whether weight decay does not change the gradient

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[ParameterGroup] = []
        self.state = {}
        self.version = 0  # of the set of variables for state and counts
        listed = list(params)
        if not listed:
            raise ArgumentError(f"{type(self).__name__}: at least one parameter is required; got none")
        groups = listed if isinstance(listed[0], Mapping) else [{"params": listed}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters with their own hyper-parameters.

        Raises ArgumentError for anything that is no parameter, and for a parameter that the optimiser already has.
        """
        given = group["params"]
        variables = [given] if isinstance(given, Variable) else list(given)
        known = {id(p) for g in self.param_groups for p in g.params}
        for p in variables:
            if not isinstance(p, Variable):
                remedy = "; write x = nn.Parameter(x) and use x in its place" if isinstance(p, Value) else ""
                raise ArgumentError(f"{type(self).__name__}: params must be parameters; got {type(p).__name__}{remedy}")
            if id(p) in known:
                raise ArgumentError(f"{type(self).__name__}: each parameter may occur only once; got {p.name!r} again")
            known.add(id(p))
        settings = {k: plain(v) for k, v in {**self.defaults, **group}.items() if k != "params"}
        settings["params"] = variables
        self.check(settings)
        self.param_groups.append(ParameterGroup(settings, self.check))

    @property
    def state(self) -> ParameterStates:
        """The state of each parameter that has taken a step, in variables by name.

        Setting an entry of a parameter's state assigns to its variable, which compiled functions see.

        >>> p = nn.Parameter([1.0]); opt = optim.SGD([p], lr=0.5, momentum=0.5)
        >>> (p * p).sum().backward(); opt.step(); opt.state[p]["momentum_buffer"] = nc.zeros(1)
        >>> opt.step(); p.tolist()
        [-1.0]
        """
        return self._state

    @state.setter
    def state(self, held: Mapping[Variable, dict[str, Variable]]) -> None:
        before: ParameterStates | None = vars(self).get("_state")
        self._state = ParameterStates(held, removals=0 if before is None else before.removals + 1)

    def shared(self) -> dict[str, Variable]:
        """The variables besides the count that parameters with common steps share, before the first step."""
        return {}

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise ArgumentError for unknown hyper-parameters and for values out of range."""
        kind = type(self).__name__
        unknown = sorted(set(settings) - {*self.defaults, "params", "initial_lr"}, key=str)
        if unknown:
            raise ArgumentError(f"{kind}: settings must be among {sorted(self.defaults)}; got {unknown}")
        if "betas" in settings:
            betas = settings["betas"]
            if not (
                isinstance(betas, tuple | list)
                and len(cast("list[Any]", betas)) == 2
                and all(is_number(b) and 0.0 <= b < 1.0 for b in cast("list[Any]", betas))
            ):
                raise ArgumentError(f"{kind}: betas must be two numbers in [0, 1); got {betas}")
        for name in ("alpha", "rho"):
            if name in settings and not (is_number(settings[name]) and 0.0 <= settings[name] <= 1.0):
                raise ArgumentError(f"{kind}: {name} must be in [0, 1]; got {settings[name]}")
        for name in POSITIVE:
            if name in settings and not (is_number(settings[name]) and settings[name] >= 0):
                traced = "; in a traced function assign to group.rate" if isinstance(settings[name], Value) else ""
                raise ArgumentError(
                    f"{kind}: {name} must be a number that is not negative; got {settings[name]!r}{traced}"
                )
        for name in set(settings) - {"params"}:
            default, value = self.defaults.get(name, 1.0), plain(settings[name])
            wanted = "True or False" if isinstance(default, bool) else "a number that converts to float"
            if (
                (isinstance(default, bool) and not (value is None or is_flag(value)))
                or (type(default) in (int, float) and not is_number(value))
                or not _storable(value)
            ):
                raise ArgumentError(f"{kind}: {name} must be {wanted}; got {value!r:.60}")

    @property
    def fingerprint(self) -> Hashable:
        """The state that a compiled step depends on: plain settings, and the sets of parameters and of state."""
        return (self.version, self.state.removals, *[(len(g.params), g.settings) for g in self.param_groups])

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.  A closure computes the loss first; its result is returned.

        >>> p = nn.Parameter([1.0])
        >>> opt = optim.SGD([p], lr=0.5)
        >>> (p * p).sum().backward(); opt.step(); p.data
        Tensor([0.], f32[1])
        """
        loss = closure() if closure is not None else None
        if STATE.word:
            report(self, "fingerprint")
        with gradients(False):
            without_autocast(self._step_groups)
        return loss

    def _step_groups(self) -> None:
        for group in self.param_groups:
            self.step_group(group)

    def step_group(self, group: ParameterGroup) -> None:
        """Update the parameters of a group that have a gradient."""
        given = [(p, p.gradient) for p in group.params]
        present = [(p, g) for p, g in given if g is not None]
        if not present:
            return
        if group.settled != group.settings:
            self._complete_state(group)
        for clock, members in self._together(group, present):
            scalars = self.advance(group, clock)
            for p, g in members:
                self._step_parameter(p, g, scalars, group)

    def _complete_state(self, group: ParameterGroup) -> None:
        """Complete the state of parameters whose settings have changed since it was created."""
        for p in group.clocks:
            if p in self.state:
                self.state.hold(p, self.completed(self.state[p], self.fresh(p, group)))
        group.settled = group.settings

    def _together(self, group: ParameterGroup, present: Sequence[Stepping]) -> list[tuple[Clock, list[Stepping]]]:
        """The parameters that now step by their shared clock; parameters that part from the others get their own clock.

        Clocks are compared by identity only, so the result of a step does not depend on which parameters share one.
        """
        found: dict[Clock | None, list[Stepping]] = {}
        for p, g in present:
            found.setdefault(group.clocks.get(p) if p in self.state else None, []).append((p, g))
        sizes = Counter(group.clocks.values())
        together: list[tuple[Clock, list[Stepping]]] = []
        for held, members in found.items():
            clock = held
            if clock is None:
                clock = Clock({"step": Variable(constant(0, int64), name="step"), **self.shared()})
            elif len(members) < sizes[clock]:
                clock, at_once = clock.copy()
                self.version += 1
                if at_once:
                    renew(self, "fingerprint")
            if clock is not held:
                group.clocks.update({p: clock for p, _ in members})
            together.append((clock, members))
        return together

    def _step_parameter(self, p: Variable, g: Any, scalars: Mapping[str, Any], group: ParameterGroup) -> None:
        held = self.state.get(p)
        if held is None:
            held = self.state.hold(p, self.fresh(p, group))
        value, wide = stripped(p.value), computing(p)
        given = in_parts(as_tensor(value, wide))
        try:
            new, states = self.update(
                given,
                in_parts(as_tensor(stripped(g), wide)),
                {k: in_parts(v.value) for k, v in held.items()},
                {k: spread(as_tensor(s, given.type.dtype), given.type.shape) for k, s in scalars.items()},
                group,
            )
        except DTypeError as fault:
            raise _of_another_dtype(type(self).__name__, p, held, wide) or fault from None
        commit(p, as_tensor(joined(new, wide), p.dtype))
        for k, v in states.items():
            commit(held[k], joined(v, held[k].dtype))

    def advance(self, group: ParameterGroup, clock: Clock) -> dict[str, Any]:
        """Advance a clock by one step; returns its `scalars`."""
        return self.scalars(group, clock.ticked())

    def scalars(self, group: ParameterGroup, count: Any) -> dict[str, Any]:
        """The rank-0 float64 tensors that all parameters at step number `count` share."""
        raise NotImplementedError

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def completed(self, held: Mapping[str, Variable], fresh: Mapping[str, Variable]) -> dict[str, Variable]:
        """A parameter's state, with the additional state that changed settings need."""
        return {**fresh, **held}

    def update(self, p: Any, g: Any, state: dict[str, Any], scalars: dict[str, Any], group: ParameterGroup) -> Updated:
        """The new value of a parameter and of its state."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, or set them to zero."""
        for group in self.param_groups:
            for p in group.params:
                if set_to_none:
                    p.gradient = None
                elif p.gradient is not None:
                    p.gradient = zeros_like(p.gradient)

    # ---- saving

    def variables(self) -> Iterator[Variable]:
        """All variables of the optimiser: state, learning rates, counts of steps."""
        for group in self.param_groups:
            yield group.rate
            yield from group.varying.values()
            for clock in dict.fromkeys(group.clocks.values()):
                yield from clock.numbers.values()
        for held in self.state.values():
            yield from held.values()

    def state_dict(self) -> dict[str, Any]:
        """State and hyper-parameters, with parameters by number, in PyTorch's form."""
        number = {id(p): k for k, p in enumerate(p for g in self.param_groups for p in g.params)}
        groups = [{**g, "params": [number[id(p)] for p in g.params]} for g in self.param_groups]
        state = {
            number[id(p)]: {k: v.value for k, v in {**g.clocks[p].numbers, **self.state[p]}.items()}
            for g in self.param_groups
            for p in g.params
            if p in self.state
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`, or of PyTorch's optimiser, for parameters in the same order.

        Raises StateError if groups have other numbers of parameters, and for state and hyper-parameters that are
        incomplete or of another kind of optimiser; then nothing is changed.
        """
        planned(self, saved).apply(self)

    def __getstate__(self) -> dict[str, Any]:
        held = {k: v for k, v in vars(self).items() if k not in ("param_groups", "_state")}
        groups = [(dict(g), [*g.varying]) for g in self.param_groups]
        return {**held, "saved": (groups, Optimizer.state_dict(self))}

    def __setstate__(self, held: dict[str, Any]) -> None:
        groups, saved = held.pop("saved")
        vars(self).update(held)
        self.param_groups, self.state = [], {}
        for settings, varying in groups:
            self.param_groups.append(ParameterGroup(settings, self.check))
            for name in varying:
                self.param_groups[-1].vary(name)
        Optimizer.load_state_dict(self, saved)

    def __dir__(self) -> list[str]:
        return listed(self)

    def __repr__(self) -> str:
        groups = [", ".join(f"{k}={v}" for k, v in g.items() if k != "params") for g in self.param_groups]
        return f"{type(self).__name__}({'; '.join(groups)})"


mark_absent(Optimizer, OPTIMIZER)


def _of_another_dtype(kind: str, p: Variable, held: Mapping[str, Variable], wide: DType) -> DTypeError | None:
    """The error for state from before the parameter's dtype was changed, if there is some."""
    for name, cell in held.items():
        if not cell.dtype.is_integer and cell.dtype is not bool_ and cell.dtype is not wide:
            return DTypeError(
                f"{kind}.step: the state of a parameter of {p.dtype.name} must be {wide.name}; {name} of {p.name!r} is "
                f"{cell.dtype.name}, from before the parameter's dtype changed; make the optimiser again, and load the "
                "state_dict of the old one into it"
            )
    return None


def computing(p: Variable) -> DType:
    """The dtype in which a parameter's update is computed."""
    return p.dtype.arithmetic


def in_parts(x: Any) -> Any:
    """Complex numbers as pairs of real ones, each of which is a parameter of its own; other numbers as they are."""
    return parts.as_real(x) if x.type.dtype.is_complex else x


def joined(x: Any, dtype: DType) -> Any:
    """The way back from `in_parts` to a dtype."""
    return parts.as_complex(x) if dtype.is_complex else x


def zeros_for(p: Variable, name: str, value: float = 0.0) -> Variable:
    """A variable of zeros, or of another number, for a parameter; it is made at once, even while tracing."""
    dtype = computing(p)
    numbers = np.full(p.shape, complex(value, value) if dtype.is_complex else value, dtype.numpy)  # type: ignore[arg-type]
    return Variable(as_tensor(numbers), name=f"{p.name}.{name}")
