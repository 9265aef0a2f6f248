"""Loading of optimiser states, Nacre's own and PyTorch's: everything is checked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from nacre.api.foreign import array_of
from nacre.api.operands import as_tensor
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, Error, StateError
from nacre.base.records import dataclass
from nacre.optim.group import Clock, ParameterGroup, plain
from nacre.optim.states import ParameterStates
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

Entry = Mapping[str, Any]
MOST = 1 << 53  # limit of step counts, beyond which floats are inexact
ELSEWHERE = {  # settings of PyTorch's without effect on numbers, and entries of its schedules
    "foreach", "fused", "capturable", "differentiable", "max_lr", "min_lr", "base_momentum", "max_momentum",
}  # fmt: skip


class LoadableOptimizer(Protocol):
    """The part of an optimiser that loading needs."""

    param_groups: list[ParameterGroup]
    version: int

    @property
    def state(self) -> ParameterStates:
        """The state of each parameter that has taken a step, in variables by name."""
        ...

    @property
    def occasional(self) -> frozenset[str]:
        """The names of state that a parameter has only with some settings."""
        ...

    @property
    def optional(self) -> frozenset[str]:
        """The names of state that may be missing."""
        ...

    @property
    def decoupled(self) -> bool:
        """Whether weight decay does not change the gradient."""
        ...

    def shared(self) -> dict[str, Variable]:
        """The variables besides the count that parameters with common steps share."""
        ...

    def fresh(self, p: Variable, group: ParameterGroup) -> dict[str, Variable]:
        """The state of a parameter before its first step."""
        ...

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise ArgumentError for hyper-parameters that do not fit."""
        ...


@dataclass(frozen=True)
class Loaded:
    """The new contents of a group: its settings, and its parameters' state and clock numbers, by name."""

    settings: dict[str, Any]
    state: dict[Variable, dict[str, Any]]
    cells: dict[Variable, dict[str, Variable]]  # for state that a parameter lacks
    numbers: dict[Variable, dict[str, Any]]


@dataclass(frozen=True)
class LoadPlan:
    """The new contents of an optimiser, group by group."""

    groups: list[Loaded]

    def apply(self, optimizer: LoadableOptimizer) -> None:
        """Apply it to the optimiser; existing variables stay, for compiled functions."""
        for group, loaded in zip(optimizer.param_groups, self.groups, strict=True):
            group.update(loaded.settings)
            for p in group.params:
                before = optimizer.state.get(p)
                if p not in loaded.state:
                    optimizer.state.pop(p, None)
                else:
                    held = before or {}
                    cells = {k: held.get(k, loaded.cells[p][k]) for k in loaded.state[p]}
                    for k, v in loaded.state[p].items():
                        cells[k].assign(v)
                    optimizer.state.hold(p, cells)
                optimizer.version += before is not None and before != optimizer.state.get(p)
            optimizer.version += _set_clocks(group, loaded.numbers)
            group.settled = group.settings


def _set_clocks(group: ParameterGroup, numbers: Mapping[Variable, dict[str, Any]]) -> bool:
    """Give parameters with the same steps one clock; returns whether the grouping has changed."""
    together: dict[tuple[float, ...], list[Variable]] = {}
    for p, held in numbers.items():
        together.setdefault(tuple(v.item() for v in held.values()), []).append(p)
    before, after = dict(group.clocks), dict[Variable, Clock]()
    for members in together.values():
        old = before.get(members[0])
        shared = {id(p) for p, clock in before.items() if clock is old}
        clock = old if old is not None and shared == {id(p) for p in members} else Clock({})
        for name, value in numbers[members[0]].items():
            cell = clock.numbers.setdefault(name, Variable(value, name=name))
            cell.assign(value)
        after.update({p: clock for p in members})
    group.clocks = {p: after[p] for p in group.params if p in after}
    return group.clocks != before


def planned(optimizer: LoadableOptimizer, saved: Any) -> LoadPlan:
    """A saved state, checked against an optimiser, which does not change.  Raises StateError if it does not fit."""
    kind = type(optimizer).__name__
    try:
        return _planned(optimizer, *_parts(kind, saved))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, IndexError) as fault:
        raise StateError(
            f"{kind}.load_state_dict: the state must hold numbers and tensors; {fault}; pass the result of a state_dict"
        ) from fault


def _parts(kind: str, saved: object) -> tuple[Sequence[Entry], Mapping[Any, Entry]]:
    """The groups and the state of a saved state.  Raises StateError for another form."""
    held = _mapping(saved, f"{kind}.load_state_dict: a dict with state and param_groups")
    if not {"state", "param_groups"} <= set(held):
        raise StateError(
            f"{kind}.load_state_dict: the state must be a dict with state and param_groups; got {list(held)}"
        )
    groups: object = held["param_groups"]
    if not isinstance(groups, list | tuple):
        raise StateError(f"{kind}.load_state_dict: param_groups must be a list of dicts; got {groups!r:.60}")
    listed = [
        _mapping(g, f"{kind}.load_state_dict: a dict for each of param_groups")
        for g in cast("Sequence[object]", groups)
    ]
    for g in listed:
        numbers: object = g.get("params")
        if not isinstance(numbers, list | tuple) or not all(type(n) is int for n in cast("Sequence[object]", numbers)):
            raise StateError(
                f"{kind}.load_state_dict: params of each group must list the parameters' numbers; got {numbers!r:.60}"
            )
    state = _mapping(held["state"], f"{kind}.load_state_dict: state as a dict by the parameters' numbers")
    return listed, {
        n: _mapping(v, f"{kind}.load_state_dict: a dict as state of parameter {n!r:.60}") for n, v in state.items()
    }


def _mapping(value: object, what: str) -> Mapping[Any, Any]:
    """A value that is a mapping; raises StateError, with the requirement, for others."""
    if not isinstance(value, Mapping):
        raise StateError(f"{what} is required; got {value!r:.60}; pass the result of a state_dict")
    return cast("Mapping[Any, Any]", value)


def _planned(optimizer: LoadableOptimizer, groups: Sequence[Entry], state: Mapping[Any, Entry]) -> LoadPlan:
    kind = type(optimizer).__name__
    sizes, own = [len(g["params"]) for g in groups], [len(g.params) for g in optimizer.param_groups]
    if sizes != own:
        raise StateError(f"{kind}.load_state_dict: groups must have {own} parameters; got {sizes}")
    stray = sorted(set(state) - {n for g in groups for n in g["params"]}, key=str)
    if stray:
        raise StateError(f"{kind}.load_state_dict: state must belong to the groups' parameters; got also {stray}")
    return LoadPlan(
        [
            _planned_group(optimizer, own_group, saved_group, state)
            for own_group, saved_group in zip(optimizer.param_groups, groups, strict=True)
        ]
    )


def _planned_group(
    optimizer: LoadableOptimizer, own_group: ParameterGroup, saved_group: Entry, state: Mapping[Any, Entry]
) -> Loaded:
    settings = _settings(optimizer, own_group, saved_group)
    trial = ParameterGroup({**own_group, **settings})
    for name in own_group.varying:
        trial.vary(name)
    clock = {"step": Variable(as_tensor(0, int64)), **optimizer.shared()}
    found = Loaded(settings, {}, {}, {})
    for number, p in zip(saved_group["params"], own_group.params, strict=True):
        entry = state.get(number)
        if entry is None:
            continue
        held = {k: v for k, v in entry.items() if v is not None}
        cells = optimizer.fresh(p, trial)
        _require_names(optimizer, number, held, cells, clock)
        for name in set(held) & optimizer.occasional - set(cells):  # of other settings before
            cells[name] = Variable(_tensor(optimizer, number, name, held[name]), name=f"{p.name}.{name}")
        if "started" in cells:  # a saved momentum has had its first value
            held.setdefault("started", "momentum_buffer" in held)
        found.cells[p] = cells
        found.state[p] = {k: _fitting(optimizer, number, k, held.get(k, v.value), v) for k, v in cells.items()}
        found.numbers[p] = {k: _fitting(optimizer, number, k, held.get(k, v.value), v) for k, v in clock.items()}
    return found


def _settings(optimizer: LoadableOptimizer, own_group: ParameterGroup, saved_group: Entry) -> dict[str, Any]:
    """The hyper-parameters that a group will have."""
    kind = type(optimizer).__name__
    found = {k: plain(v) for k, v in saved_group.items() if k != "params" and k not in ELSEWHERE}
    decoupled = found.get("decoupled_weight_decay", optimizer.decoupled)
    if "decoupled_weight_decay" not in own_group:
        found.pop("decoupled_weight_decay", None)
        if bool(decoupled) is not optimizer.decoupled:
            raise StateError(
                f"{kind}.load_state_dict: the optimiser has decoupled={optimizer.decoupled} for its weight decay; the "
                f"state has {decoupled}; load it into {'AdamW' if decoupled else 'Adam'}"
            )
    try:
        optimizer.check({**own_group, **found})
    except ArgumentError as fault:
        raise StateError(f"{kind}.load_state_dict: hyper-parameters must be those of {kind}; {fault}") from None
    return found


def _require_names(optimizer: LoadableOptimizer, number: Any, held: Entry, cells: Entry, clock: Entry) -> None:
    """Raise StateError for state of another kind or other settings, or for missing state."""
    strange = sorted(map(str, set(held) - set(cells) - set(clock) - optimizer.occasional))
    missing = sorted({*cells, *clock} - set(held) - optimizer.optional)
    if strange or missing:
        kind = type(optimizer).__name__
        wrong = [f"{', '.join(strange)} too"] * bool(strange) + [f"no {', '.join(missing)}"] * bool(missing)
        names = ", ".join(sorted({*cells, *clock}))
        raise StateError(
            f"{kind}.load_state_dict: parameter {number} must have state {names} with these settings; got "
            f"{' and '.join(wrong)}; load it into the kind of optimiser that it was saved from"
        )


def _fitting(optimizer: LoadableOptimizer, number: Any, name: str, value: Any, cell: Variable) -> Any:
    """A value of a variable's type."""
    held, kind = _tensor(optimizer, number, name, value), type(optimizer).__name__
    if held.type.shape != cell.shape:
        raise StateError(
            f"{kind}.load_state_dict: {name} of parameter {number} must have shape {list(cell.shape)}; got "
            f"{list(held.type.shape)}"
        )
    if name == "step" and not (0 <= held.item() < MOST and float(held.item()).is_integer()):
        raise StateError(f"{kind}.load_state_dict: step of parameter {number} must be a count; got {held.item()}")
    return stripped(as_tensor(held, cell.dtype))


def _tensor(optimizer: LoadableOptimizer, number: Any, name: str, value: Any) -> Any:
    """A saved value as a tensor, also from another library."""
    try:
        return as_tensor(array_of(value))
    except Error as fault:
        raise StateError(
            f"{type(optimizer).__name__}.load_state_dict: {name} of parameter {number} must be a tensor; {fault}"
        ) from None
