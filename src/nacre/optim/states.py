"""The state of an optimiser's parameters, in variables that compiled steps read and write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nacre.api.operands import as_tensor
from nacre.base.errors import ArgumentError
from nacre.trace.value import stripped
from nacre.trace.variable import Variable

__all__ = ["ParameterState", "ParameterStates"]


class ParameterState(dict[str, Variable]):
    """The state of one parameter, in variables by name; setting an entry assigns to its variable.

    Raises ArgumentError for a name that the state does not have, and when an entry is removed; DTypeError or ShapeError
    for a value that does not fit.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self:
            raise ArgumentError(
                f"state: entries of a parameter must be among {sorted(self)}; got {name!r}; load_state_dict loads "
                "other state"
            )
        held = self[name]
        given = value.value if isinstance(value, Variable) else value
        if value is not held:
            held.assign(stripped(as_tensor(given)))

    def update(self, *others: Any, **more: Any) -> None:
        """Set several entries."""
        for name, value in dict(*others, **more).items():
            self[name] = value

    def __ior__(self, other: Any) -> ParameterState:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Variable:
        """An entry, which must exist."""
        if name not in self:
            self[name] = default
        return self[name]

    def _keep(self, *_: Any) -> Any:
        raise ArgumentError(
            "state: entries of a parameter cannot be removed one by one; write `del optimizer.state[parameter]`, or "
            "assign zeros"
        )

    __delitem__ = pop = popitem = clear = _keep

    def __reduce__(self) -> Any:
        return ParameterState, (dict(self),)


class ParameterStates(dict[Variable, dict[str, Variable]]):
    """The state of each parameter by name; removals are counted, because compiled steps depend on them.

    Setting the state of a parameter assigns to its variables.  Raises ArgumentError if it has none yet, or other names.
    """

    def __init__(self, given: Mapping[Variable, Mapping[str, Variable]], removals: int = 0) -> None:
        super().__init__()
        self.removals = removals
        for p, held in given.items():
            self.hold(p, held)

    def hold(self, p: Variable, held: Mapping[str, Variable]) -> dict[str, Variable]:
        """Hold the variables of a parameter's state."""
        state = ParameterState(held)
        super().__setitem__(p, state)
        return state

    def __setitem__(self, p: Variable, given: Mapping[str, Any]) -> None:
        held = self.get(p)
        if held is None or set(held) != set(given):
            names = "none before its first step" if held is None else str(sorted(held))
            raise ArgumentError(
                f"state: the state of a parameter must have its own entries, {names}; got {sorted(given)}; "
                "load_state_dict loads a whole state"
            )
        for name, value in given.items():
            held[name] = value

    def update(self, *others: Any) -> None:
        """Set the states of several parameters."""
        given: dict[Variable, Mapping[str, Any]] = dict(*others)
        for p, held in given.items():
            self[p] = held

    def setdefault(self, p: Variable, default: Any = None) -> dict[str, Variable]:
        """The state of a parameter, which must exist."""
        if p not in self:
            self[p] = default or {}
        return self[p]

    def __ior__(self, other: Any) -> ParameterStates:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return ParameterStates, (dict(self),)

    def __delitem__(self, p: Variable) -> None:
        self.removals += 1
        super().__delitem__(p)

    def pop(self, *args: Any) -> Any:
        """Remove the state of a parameter."""
        self.removals += 1
        return super().pop(*args)

    def popitem(self) -> tuple[Variable, dict[str, Variable]]:
        """Remove the state that was added last."""
        self.removals += 1
        return super().popitem()

    def clear(self) -> None:
        """Remove all state; the next step is then like a first one."""
        self.removals += 1
        super().clear()
