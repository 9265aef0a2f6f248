"""Modules that hold modules or parameters: sequences, lists and dicts, with PyTorch's names in state dicts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from nacre.api.operands import distinct
from nacre.base.errors import ArgumentError, AxisError, MissingKey
from nacre.nn.module import Module, Parameter
from nacre.trace.guards import report
from nacre.trace.value import Value
from nacre.trace.variable import Variable

__all__ = [
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]

_Row = TypeVar("_Row", bound="_ModuleRow")


def _module(value: Any) -> Module:
    if not isinstance(value, Module):
        raise ArgumentError(f"modules: entries must be instances of nn.Module; got {type(value).__name__}")
    return value


def _parameter(value: Any) -> Parameter:
    if isinstance(value, Parameter):
        return value
    if isinstance(value, Value) and not isinstance(value, Variable):
        return Parameter(value)
    raise ArgumentError(f"parameters: entries must be instances of nn.Parameter; got {type(value).__name__}")


def _place(index: int, count: int, kind: str) -> int:
    if not -count <= index < count:
        raise AxisError(f"{kind}: an index must be in [{-count}, {count}); got {index}")
    return index % count


class _ModuleRow(Module):
    """Modules in order, named "0", "1", …"""

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, place: int | slice) -> Any:
        modules = list(self.children())
        if isinstance(place, slice):
            return type(self)._of(modules[place])
        return modules[_place(place, len(modules), type(self).__name__)]

    @classmethod
    def _of(cls: type[_Row], modules: Iterable[Module]) -> _Row:
        made = cls()
        made._fill(modules)
        return made

    def _fill(self, modules: Iterable[Any]) -> None:
        """Replace the held modules."""
        checked = [_module(m) for m in modules]
        for name, _ in list(self.named_children()):
            delattr(self, name)
        for k, module in enumerate(checked):
            setattr(self, str(k), module)

    def __setitem__(self, place: int, module: Module) -> None:
        names = [name for name, _ in self.named_children()]
        setattr(self, names[_place(place, len(names), type(self).__name__)], _module(module))

    def __delitem__(self, place: int) -> None:
        modules = list(self.children())
        del modules[_place(place, len(modules), type(self).__name__)]
        self._fill(modules)

    def append(self: _Row, module: Module) -> _Row:
        """Add a module at the end.  Returns itself."""
        setattr(self, str(len(self)), _module(module))
        return self

    def extend(self: _Row, modules: Iterable[Module]) -> _Row:
        """Add modules at the end.  Returns itself."""
        for module in modules:
            self.append(module)
        return self

    def insert(self: _Row, index: int, module: Module) -> _Row:
        """Add a module before the one at an index.  Returns itself."""
        modules = list(self.children())
        modules.insert(index, _module(module))
        self._fill(modules)
        return self


class Sequential(_ModuleRow):
    """Modules applied one after the other; their names are "0", "1", … or the keys of a dict.

    The input is that of the first module, the output that of the last.  Raises ArgumentError for entries that are no
    modules, and AxisError, an IndexError, for an index out of range.

    >>> nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))(nc.ones((1, 3))).shape
    (1, 2)
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                setattr(self, name, _module(module))
        else:
            self._fill(modules)

    def forward(self, x: Any) -> Any:
        """The last module's result; without modules x, a tensor as a new object."""
        result = x
        for module in self.children():
            result = module(result)
        return distinct(result, x) if isinstance(result, Value) else result


class ModuleList(_ModuleRow):
    """A list of modules; their parameters belong to the module that holds the list.

    Raises ArgumentError for entries that are no modules, and AxisError, an IndexError, for an index out of range.

    >>> len(nn.ModuleList([nn.ReLU(), nn.ReLU()]).append(nn.ReLU()))
    3
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._fill(modules)


class _Named(Module):
    """Attributes of one kind, in order, as entries of a dict.  The name of a method or property is refused."""

    def _held(self) -> dict[str, Any]:
        report(self, "fingerprint")
        return {k: v for k, v in vars(self).copy().items() if isinstance(v, Module | Parameter)}

    def _check(self, value: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[str]:
        return iter(self._held())

    def __contains__(self, name: object) -> bool:
        return name in self._held()

    def __getitem__(self, name: str) -> Any:
        found = self._held()
        if name not in found:
            raise MissingKey(f"{type(self).__name__}: there is no entry {name!r}; its names are {list(found)}")
        return found[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or "." in name or not name:
            raise ArgumentError(f"{type(self).__name__}: a name must not be an attribute of the class; got {name!r}")
        setattr(self, name, self._check(value))

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self._held())

    def values(self) -> Iterator[Any]:
        """The held entries."""
        return iter(self._held().values())

    def items(self) -> Iterator[tuple[str, Any]]:
        """The pairs of names and entries."""
        return iter(self._held().items())

    def pop(self, name: str) -> Any:
        """Remove an entry and return it."""
        found = self[name]
        del self[name]
        return found

    def clear(self) -> None:
        """Remove all entries."""
        for name in self._held():
            delattr(self, name)

    def update(self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Set several entries."""
        listed = cast("Mapping[str, Any]", entries).items() if isinstance(entries, Mapping) else entries
        for name, value in listed:
            self[name] = value


class ModuleDict(_Named):
    """A dict of modules; their parameters belong to the module that holds the dict.

    Raises ArgumentError for entries that are no modules, or a name of the class's own.
    Raises MissingKey, a KeyError, for a name without an entry.

    >>> nn.ModuleDict({"act": nn.ReLU()})["act"](nc.tensor([-1.0]))
    Tensor([0.], f32[1])
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        self.update(modules)

    def _check(self, value: Any) -> Module:
        return _module(value)


class ParameterDict(_Named):
    """A dict of parameters; tensors become parameters.  The entries of a plain dict are sorted by name.

    Raises ArgumentError for entries that are no parameters or tensors, or a name of the class's own.
    Raises MissingKey, a KeyError, for a name without an entry.

    >>> sorted(nn.ParameterDict({"a": nc.ones(2), "b": nn.Parameter(1.0)}).state_dict())
    ['a', 'b']
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        self.update(parameters)

    def update(self, entries: Any) -> None:
        """Set entries; those of a plain dict are sorted by name, as in PyTorch."""
        given: Any = entries
        plain = isinstance(entries, Mapping) and not isinstance(entries, OrderedDict)
        super().update(sorted(given.items()) if plain else given)

    def _check(self, value: Any) -> Parameter:
        return _parameter(value)


class ParameterList(Module):
    """A list of parameters with the names "0", "1", …; tensors become parameters.

    Raises ArgumentError for other entries, or an index out of range.

    >>> [p.shape for p in nn.ParameterList([nc.ones(2), nc.ones(3)])]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.extend(values)

    def _held(self) -> list[Parameter]:
        report(self, "fingerprint")
        return [v for v in vars(self).copy().values() if isinstance(v, Parameter)]

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._held())

    def __getitem__(self, place: int) -> Parameter:
        held = self._held()
        return held[_place(place, len(held), "ParameterList")]

    def __setitem__(self, place: int, value: Any) -> None:
        setattr(self, str(_place(place, len(self), "ParameterList")), _parameter(value))

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end.  Returns itself."""
        setattr(self, str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end.  Returns itself."""
        for value in values:
            self.append(value)
        return self
