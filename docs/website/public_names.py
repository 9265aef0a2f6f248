"""The public names of Nacre, in the namespaces that users take them from and the pages that show them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import nacre
from nacre import data, deploy, nn, optim, optimize
from nacre.api import namespace
from nacre.api.other_names.late import LATE
from nacre.base import dtypes, errors
from nacre.base.cached_property import cached_property


@dataclass(frozen=True)
class Part:
    """A page of the reference: what its names have in common, a docstring, and the names in full."""

    title: str
    introduction: str
    names: tuple[str, ...]

    def objects(self) -> Iterator[tuple[str, Any]]:
        """The names and what they stand for."""
        return ((name, found(name)) for name in self.names)


@dataclass(frozen=True)
class Space:
    """A namespace: its module, how examples call it, and its pages."""

    module: str
    short: str
    parts: tuple[Part, ...]


def found(name: str) -> Any:
    """What a name in full stands for, such as `nacre.random.normal`."""
    first, *rest = name.split(".")
    held: Any = import_module(first)
    path = first
    for word in rest:
        path += f".{word}"
        if not hasattr(held, word):
            import_module(path)
        held = getattr(held, word)
    return held


def _part(home: str, names: Iterable[str]) -> Part:
    """A page of names that are written in one module, whose docstring says what they have in common."""
    return Part(home.rpartition(".")[2], import_module(home).__doc__ or "", tuple(names))


def _parts(homes: Mapping[str, Iterable[str]], prefix: str) -> tuple[Part, ...]:
    """A page for each module that has public names."""
    return tuple(_part(home, (f"{prefix}.{name}" for name in sorted(names))) for home, names in homes.items() if names)


def _late(prefix: str, table: Mapping[str, str], within: str) -> tuple[Part, ...]:
    """The pages of a package whose names are loaded late, from its table of homes."""
    return _parts({f"{within}.{home}": names.split() for home, names in table.items()}, prefix)


def _listed(package: ModuleType) -> tuple[Part, ...]:
    """The pages of a package with `__all__`: one for each module that its names come from."""
    homes: dict[str, list[str]] = {}
    for name in package.__all__:
        homes.setdefault(getattr(getattr(package, name), "__module__", package.__name__), []).append(name)
    return _parts(dict(sorted(homes.items())), package.__name__)


def _whole(module: str, prefix: str | None = None) -> Part:
    """The page of a module that is a namespace of its own."""
    return _part(module, (f"{prefix or module}.{name}" for name in defined(import_module(module))))


def defined(module: ModuleType) -> list[str]:
    """The names that a module lists in `__all__`, or else the public ones that it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, held in vars(module).items()
        if not name.startswith("_") and getattr(held, "__module__", None) == module.__name__
    ]


RETURNED = {  # what public functions give, beside tensors
    "nacre.transform.jit": ["nacre.transform.jit.Jitted"],
    "nacre.transform.concrete": [f"nacre.transform.concrete.{n}" for n in ("ConcreteFunction", "Cost", "Memory")],
    "nacre.formats.program": ["nacre.formats.values.GraphNode"],
}
MADE = {name for names in RETURNED.values() for name in names} | {  # classes whose objects Nacre makes
    "nacre.Graph",
    "nacre.IndexUpdate",
    "nacre.Variable",
    "nacre.DType",
    "nacre.Tensor",
    "nacre.deploy.Deployed",
    "nacre.sparse.CSR",
    "nacre.train.Checkpoint",
    "nacre.inspect.LostDigits",
    "nacre.inspect.Precision",
    "nacre.inspect.RangeRow",
    "nacre.inspect.RangeTable",
    "nacre.inspect.explain.Explanation",
    "nacre.inspect.profile.Profile",
    "nacre.inspect.profile.Row",
    "nacre.inspect.tape.TapeMemory",
    "nacre.inspect.tape.TapeRow",
    "nacre.inspect.timing.Times",
    "nacre.inspect.ceilings.Ceilings",
    "nacre.inspect.machine.Check",
    "nacre.inspect.machine.Kept",
}


def _core() -> tuple[Part, ...]:
    """The pages of `nacre` itself."""
    homes: dict[str, list[str]] = {
        "nacre.api.tensor": ["Tensor"],
        "nacre.trace.variable": ["Variable"],
        **{m.__name__: list(m.__all__) for m in namespace.MODULES},
        "nacre.base.dtypes": ["DType", *(d.name for d in dtypes.NAMED)],
        "nacre.base.dims": ["Dim"],
    }
    homes |= {f"nacre.{home}": names.split() for home, names in nacre._LATE.items()}
    homes["nacre.base.errors"] = list(errors.__all__)
    parts: list[Part] = []
    for home, names in homes.items():
        parts.append(_part(home, (*(f"nacre.{n}" for n in sorted(names)), *RETURNED.get(home, ()))))
        if home == "nacre.transform.jit":
            parts.append(_part("nacre.transform.concrete", RETURNED["nacre.transform.concrete"]))
    return tuple(parts)


# classes whose members are those of the one public class that inherits them
HALVES = ("Differentiable", "LateMethods", "Methods", "WithHooks")
METHODS = namespace.METHODS | {name: getattr(nacre, name) for name in LATE.split()}
AS_METHODS = frozenset(METHODS.values())  # public functions that are methods of tensors, too
INSPECT = {
    "explain": "explain Explanation",
    "profile": "profile Profile Row",
    "bits": "measure digest",
    "timing": "interleaved Times",
    "ceilings": "ceilings Ceilings",
    "roofline": "chart",
    "machine": "facts checks Check cached Kept",
    "tape": "tape_memory TapeMemory TapeRow source_lines",
}


def spaces() -> tuple[Space, ...]:
    """All namespaces, in the order in which one meets them."""
    made = [
        Space("nacre", "nc", _core()),
        Space("nacre.linalg", "nc.linalg", (_whole("nacre.api.linalg", "nacre.linalg"),)),
        Space("nacre.autograd", "nc.autograd", (_whole("nacre.api.autograd", "nacre.autograd"),)),
        Space("nacre.fft", "nc.fft", (_whole("nacre.api.fft", "nacre.fft"),)),
        Space("nacre.sparse", "nc.sparse", (_whole("nacre.api.sparse", "nacre.sparse"),)),
        Space("nacre.special", "nc.special", (_whole("nacre.api.special", "nacre.special"),)),
        Space("nacre.random", "nc.random", (_whole("nacre.api.random", "nacre.random"),)),
        Space("nacre.tree", "nc.tree", (_whole("nacre.api.tree", "nacre.tree"),)),
        Space("nacre.nn", "nn", _late("nacre.nn", nn.HOMES, "nacre.nn")),
        Space(
            "nacre.nn.functional",
            "nn.functional",
            _late("nacre.nn.functional", nn.functional.HOMES, "nacre.nn.functional"),
        ),
        Space("nacre.nn.init", "nn.init", (_whole("nacre.nn.init"),)),
        Space("nacre.nn.utils", "nn.utils", _listed(nn.utils)),
        Space("nacre.optim", "optim", _late("nacre.optim", optim.HOMES, "nacre.optim")),
        Space("nacre.optimize", "nc.optimize", _late("nacre.optimize", optimize.HOMES, "nacre.optimize")),
        Space("nacre.data", "data", _listed(data)),
        Space("nacre.deploy", "deploy", _parts({"nacre.deploy.compile": deploy.__all__}, "nacre.deploy")),
        Space(
            "nacre.inspect",
            "nacre.inspect",
            _listed(nacre.inspect)
            + tuple(
                _part(f"nacre.inspect.{home}", (f"nacre.inspect.{home}.{name}" for name in names.split()))
                for home, names in INSPECT.items()
            ),
        ),
    ]
    if "train" in nacre._PACKAGES:
        train = import_module("nacre.train")
        made.insert(-2, Space("nacre.train", "train", _listed(train)))
    return tuple(made)


def sources(all_spaces: tuple[Space, ...]) -> Mapping[tuple[str, str], str]:
    """The module in which each public name is written, by the namespace and the name there."""
    found: dict[tuple[str, str], str] = {}
    for part in (part for space in all_spaces for part in space.parts):
        for name, held in part.objects():
            module, _, last = name.rpartition(".")
            found[module, last] = getattr(held, "__module__", module) or module
    return found


def members(held: type) -> dict[str, Any]:
    """The public methods and properties of a class that no public class above it has; of modules `forward` too.

    What an underscored class above it has counts as the class's own.  Methods that are public functions are left out.
    """
    halves = {b for b in held.__mro__[1:-1] if b.__name__.startswith("_") or b.__name__ in HALVES}
    others = [b for b in held.__mro__[1:-1] if b not in halves]
    own = [b for b in held.__mro__ if b is held or (b in halves and not any(issubclass(other, b) for other in others))]
    above = {name for base in held.__mro__[:-1] if base not in own for name in vars(base)} - {"forward"}
    return {
        name: member
        for base in reversed(own)
        for name, member in vars(base).items()
        if not name.startswith("_") and name not in above and _shown(member)
    }


def _shown(member: Any) -> bool:
    """Whether a member of a class is a method or a property of its own, and no field and no mere refusal."""
    if inspect.isfunction(member) and member in AS_METHODS:
        return False
    return inspect.isfunction(member) or isinstance(member, classmethod | staticmethod) or is_property(member)


def is_property(member: Any) -> bool:
    """Whether a member of a class is read like a field and has a docstring of its own."""
    return isinstance(member, property | cached_property)


def is_called(held: Any) -> bool:
    """Whether users know an object as a function or a class: dtypes convert when they are called, but are values."""
    return callable(held) and not isinstance(held, dtypes.DType)


def callables(all_spaces: tuple[Space, ...]) -> Iterator[tuple[str, Any, list[inspect.Parameter]]]:
    """All functions, classes and methods that users call: the name in full, the object, and its parameters.

    Errors, and classes whose objects Nacre makes, have methods and no parameters of their own.
    """
    for name, held in (pair for space in all_spaces for part in space.parts for pair in part.objects()):
        if is_called(held):
            yield name, held, [] if is_made(name, held) else parameters(held)
        for word, member in members(held).items() if isinstance(held, type) else ():
            if not is_property(member):
                yield f"{name}.{word}", member, parameters(member, not isinstance(member, staticmethod))


def other_names(held: Any) -> list[str]:
    """The other public names of a function or dtype of `nacre`."""
    return [f"nacre.{name}" for name, same in namespace.ALIASES.items() if same is held]


def is_made(name: str, held: Any) -> bool:
    """Whether users do not make the objects of a class: an error, or what another function gives."""
    return name in MADE or (isinstance(held, type) and issubclass(held, BaseException))


def parameters(held: Any, drop_first: bool = False) -> list[inspect.Parameter]:
    """The parameters of a function, or of what makes a class; without `self` where asked."""
    plain = getattr(held, "__func__", held)
    try:
        return list(inspect.signature(plain).parameters.values())[int(drop_first) :]
    except (TypeError, ValueError):
        return []
