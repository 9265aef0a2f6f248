"""The definition of a kernel in Python: its source and that of the functions it calls, its parameters, its outputs."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import FunctionType
from typing import Any, cast

from nacre.base.arguments import shown
from nacre.base.dims import Dim, lower
from nacre.base.dtypes import as_dtype
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.kernel.python.frame import FunctionSource
from nacre.transform.autograph.refusal import NotConverted
from nacre.transform.autograph.source import source_of

Plain = bool | int | float | str | None
ADVICE = "as `out=lambda x: (x.shape, x.dtype)` for a kernel f(x, out)"


def definition_of(f: Any, name: str) -> FunctionSource:
    """A function with its tree.  Raises ArgumentError if its source is not to be had."""
    if not isinstance(f, FunctionType):
        raise KindError(f"kernel: the decorated object must be a function; got {shown(f)}; write it with def")
    try:
        node = source_of(f.__code__, packages=True).node
    except NotConverted as fault:
        raise ArgumentError(f"kernel: {name} must be a function with a source; {fault}") from None
    if not isinstance(node, ast.FunctionDef):
        raise KindError(f"kernel: {name} must be a function of def; got a lambda; write def")
    return FunctionSource(node, f, os.path.basename(f.__code__.co_filename))


@dataclass(frozen=True)
class PythonSource:
    """A kernel's function, and the functions that it calls, by their identity."""

    main: FunctionSource
    parts: Mapping[int, FunctionSource]

    @staticmethod
    def of(f: Any) -> PythonSource:
        """The source of a kernel, and of the functions that its names have when it is defined."""
        main = definition_of(f, getattr(f, "__qualname__", "a function"))
        found: dict[int, FunctionSource] = {}
        todo = [main]
        while todo:
            for part in _functions(todo.pop().function):
                if id(part) not in found:
                    found[id(part)] = definition_of(part, part.__qualname__)
                    todo.append(found[id(part)])
        return PythonSource(main, found)

    @property
    def all(self) -> list[FunctionSource]:
        """The kernel's function first."""
        return [self.main, *self.parts.values()]

    @property
    def version(self) -> str:
        """A hash of the trees."""
        text = "\n".join(ast.dump(d.node) for d in self.all)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def numbers(self) -> list[dict[str, Plain]]:
        """The numbers that names of the modules have now, for each function."""
        return [{n: x for n, x in _names(d.function).items() if isinstance(x, bool | int | float)} for d in self.all]

    def with_numbers(self, numbers: Sequence[Mapping[str, Any]]) -> PythonSource:
        """The source with these numbers for names of the modules."""
        held = [replace(d, numbers=n) for d, n in zip(self.all, numbers, strict=True)]
        return PythonSource(held[0], dict(zip(self.parts, held[1:], strict=True)))

    def part(self, object: object, node: ast.AST) -> FunctionSource | None:
        """The definition of a function that the kernel calls; None for other objects."""
        return self.parts.get(id(object))


def _names(f: FunctionType) -> dict[str, Any]:
    """What the names that a function uses have, in its module and its closure."""
    code = f.__code__
    found = {n: f.__globals__[n] for n in code.co_names if n in f.__globals__}
    for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    return found


def _functions(f: FunctionType) -> list[FunctionType]:
    """The Python functions that a function's names have, without those of Nacre and other libraries' own."""
    return [
        x for x in _names(f).values()
        if isinstance(x, FunctionType) and x.__module__.partition(".")[0] not in ("nacre", "numpy", "math")
    ]  # fmt: skip


# ---- parameters


@dataclass(frozen=True)
class KernelParameters:
    """The parameters of a kernel: arrays that it reads, arrays that it writes, and others, with their defaults."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    others: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(f: FunctionType, out: Any) -> KernelParameters:
        """The parameters of a function, of which `out` describes the last."""
        listed = list(inspect.signature(f).parameters.values())
        kinds = {p.kind for p in listed}
        if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & kinds:
            raise ArgumentError(f"kernel: {f.__name__} must name each parameter; got a star; name them")
        places = [p.name for p in listed if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        others = {p.name: p.default for p in listed if p.kind is inspect.Parameter.KEYWORD_ONLY}
        count = len(places) - _inputs(out) if callable(out) else len(_listed(out))
        if not 0 < count <= len(places):
            raise ArgumentError(
                f"kernel: {f.__name__} must have a parameter for each output, behind the inputs; got the parameters "
                f"{', '.join(places) or 'none'}, and out={shown(out)}; give out a parameter for each input, {ADVICE}"
            )
        return KernelParameters(f.__name__, tuple(places[:-count]), tuple(places[-count:]), others)

    def arranged(self, args: Sequence[Any], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Plain]]:
        """The inputs and the other parameters of a call."""
        named = [n for n in self.inputs if n in given]
        if len(args) + len(named) != len(self.inputs) or any(self.inputs.index(n) < len(args) for n in named):
            raise ArgumentError(
                f"{self.name}: the inputs must be {', '.join(self.inputs) or 'none'}; got {len(args)} and "
                f"{', '.join(named) or 'no names'}; the outputs {', '.join(self.outputs)} are returned"
            )
        inputs = [*args, *(given[n] for n in self.inputs[len(args) :])]
        return inputs, self.arranged_others({n: x for n, x in given.items() if n not in self.inputs})

    def arranged_others(self, rest: Mapping[str, Any]) -> dict[str, Plain]:
        """The parameters that are not arrays, with defaults."""
        missing = [n for n, x in self.others.items() if x is inspect.Parameter.empty and n not in rest]
        if missing or rest.keys() - self.others.keys():
            raise ArgumentError(
                f"{self.name}: the parameters must be {', '.join(self.others) or 'none'}; got "
                f"{', '.join(rest) or 'none'}; pass each that has no default by its name"
            )
        return {n: self._plain(n, rest.get(n, x)) for n, x in self.others.items()}

    def _plain(self, name: str, value: Any) -> Plain:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise KindError(
            f"{self.name}: a parameter must be a number, a string or None; got {name}={shown(value)}; pass tensors as "
            "inputs, before the star"
        )


def _inputs(out: Callable[..., Any]) -> int:
    """The number of inputs that a rule takes."""
    listed = inspect.signature(out).parameters.values()
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in listed)


def _listed(out: Any) -> list[Any]:
    return list(cast("list[Any]", out)) if isinstance(out, list) else [out]


def output_types(
    name: str, out: Any, types: Sequence[TensorType], others: Mapping[str, Any], count: int
) -> tuple[TensorType, ...]:
    """The types of a kernel's outputs."""
    found = out
    if callable(out):
        taken = inspect.signature(out).parameters
        found = out(*types, **{n: x for n, x in others.items() if n in taken})
    listed = [_type(name, each) for each in _listed(found)]
    if len(listed) != count:
        raise ShapeError(
            f"kernel: out of {name} must give a type for each of {count} outputs; got {len(listed)}; return a list"
        )
    return tuple(listed)


def _type(name: str, found: Any) -> TensorType:
    if isinstance(found, TensorType):
        return found
    try:
        shape, dtype = found
        for size in shape:
            if isinstance(size, int | Dim) and lower(size) < 0:
                raise ShapeError(
                    f"kernel: sizes of outputs of {name} must be at least 0; got {size}; pass larger inputs"
                )
        return TensorType(tuple(shape), as_dtype(dtype))
    except ShapeError:
        raise
    except (TypeError, ValueError):
        raise KindError(
            f"kernel: out of {name} must be a type, a shape and a dtype, or a list of them; got {shown(found)}; "
            f"write it {ADVICE}"
        ) from None


def encoded(numbers: Sequence[Mapping[str, Plain]], others: Mapping[str, Plain]) -> str:
    """The values on which a kernel's code depends, as text in which 1, 1.0 and True differ."""
    return json.dumps([list(map(dict, numbers)), dict(others)])
