"""The definition of a kernel in Python: its source and that of the functions it calls, its parameters, its outputs."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, cast

import numpy as np

from nacre.base.arguments import shown
from nacre.base.dims import Dim, lower
from nacre.base.dtypes import DType, as_dtype
from nacre.base.errors import ArgumentError, GraphError, KindError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.kernel.python.counters import with_own_counters
from nacre.kernel.python.frame import FunctionSource
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import is_number
from nacre.transform.autograph.refusal import NotConverted
from nacre.transform.autograph.source import source_of

Plain = bool | int | float | str | np.generic | None
LIBRARIES = ("math", "nacre", "numpy")  # whose functions kernels know
ADVICE = "as `out=lambda x: (x.shape, x.dtype)` for a kernel f(x, out)"


def definition_of(f: Any) -> FunctionSource:
    """A function with its tree, and what its names have.  Raises ArgumentError if its source is not to be had."""
    if not isinstance(f, FunctionType):
        raise KindError(f"kernel: the decorated object must be a function; got {shown(f)}; write it with def")
    try:
        node = source_of(f.__code__, packages=True).node
    except NotConverted as fault:
        raise ArgumentError(f"kernel: {f.__qualname__} must be a function with a source; {fault}") from None
    node = with_own_counters(_defined(node))
    found = FunctionSource(node, f, os.path.basename(f.__code__.co_filename), names_used(node))
    return replace(found, objects=objects_of(found))


@dataclass(frozen=True)
class PythonSource:
    """A kernel's function, the functions that it calls, by their identity, and what their names had then."""

    main: FunctionSource
    parts: Mapping[int, FunctionSource]

    @staticmethod
    def of(f: Any) -> PythonSource:
        """The source of a kernel, and of the functions that its names have when it is defined."""
        if isinstance(f, FunctionType) and f.__name__ == "<lambda>":
            raise KindError(f"kernel: {f.__qualname__} must be a function of def; got a lambda; write def")
        main = definition_of(f)
        found: dict[int, FunctionSource] = {}
        todo = deque([main])
        while todo:
            for part in todo.popleft().objects.values():
                if _is_part(part) and id(part) not in found:
                    found[id(part)] = definition_of(part)
                    todo.append(found[id(part)])
        return PythonSource(main, found)

    @property
    def all(self) -> list[FunctionSource]:
        """The kernel's function first."""
        return [self.main, *self.parts.values()]

    def version(self, out: Any, debug: bool) -> str:
        """A hash of all that the kernel is, without the numbers that it reads at each call."""
        parts = {k: n for n, k in enumerate(self.parts)}
        texts = [f"debug {debug}", _text_of_out(out)]
        for d in self.all:
            fixed = {n: _token(x, parts) for n, x in d.objects.items() if not is_number(x)}
            defaults = {n: _token(x) for n, x in d.parameters()[2].items()} if d is not self.main else {}
            texts += [ast.unparse(d.node), json.dumps([fixed, defaults], sort_keys=True)]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]

    def numbers(self) -> list[dict[str, Plain]]:
        """The numbers that names have now, for each function.

        Raises GraphError if a name has another object than a number, and had not when the kernel was defined.
        """
        found: list[dict[str, Plain]] = []
        for d in self.all:
            now, before = objects_of(d), d.objects
            changed = [n for n in now.keys() | before.keys() if not _unchanged(n, now, before)]
            if changed:
                name = min(changed)
                raise GraphError(
                    f"kernel: {name} in {self.main.function.__name__} must be the object that it was when the kernel "
                    f"was defined; got {shown(now[name]) if name in now else 'none'}; define the kernel again, behind "
                    f"{name}"
                )
            found.append({n: x for n, x in now.items() if is_number(x)})
        return found

    def with_numbers(self, numbers: Sequence[Mapping[str, Any]]) -> PythonSource:
        """The source with these numbers for names of the modules."""
        main, *parts = (replace(d, objects={**d.objects, **n}) for d, n in zip(self.all, numbers, strict=True))
        return PythonSource(main, dict(zip(self.parts, parts, strict=True)))

    def part(self, object: object) -> FunctionSource | None:
        """The definition of a function that the kernel calls; None for other objects."""
        return self.parts.get(id(object))


def _defined(node: ast.FunctionDef | ast.Lambda | ast.AST) -> ast.FunctionDef:
    """A function as one of def."""
    if isinstance(node, ast.FunctionDef):
        return node
    assert isinstance(node, ast.Lambda)
    result = ast.copy_location(ast.Return(node.body), node.body)
    return ast.copy_location(ast.FunctionDef("lambda_", node.args, [result], []), node)


# ---- names


def objects_of(d: FunctionSource) -> dict[str, Any]:
    """What the names of the module, and dotted attributes of them, that a function uses have now."""
    found: dict[str, Any] = {}
    for name, node in d.used.items():
        try:
            found[name] = d.current(node)
        except (Refused, AttributeError):
            continue
    return found


def names_used(node: ast.FunctionDef) -> dict[str, ast.Name | ast.Attribute]:
    """The names that a function does not assign, with the attributes of them that it uses, in order."""
    a = node.args
    own = {each.arg for each in (*a.posonlyargs, *a.args, *a.kwonlyargs)}.union(*map(bound, node.body))
    found = {ast.unparse(e): e for s in node.body for e in _dotted(s)}
    return {name: found[name] for name in sorted(found) if name.partition(".")[0] not in own}


def bound(node: ast.AST) -> set[str]:
    """The names that a construct assigns or counts with, those in sums included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def _dotted(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """The longest dotted names in a construct."""
    held = node
    while isinstance(held, ast.Attribute):
        held = held.value
    if isinstance(held, ast.Name) and isinstance(node, ast.Name | ast.Attribute):
        yield node
    else:
        for part in ast.iter_child_nodes(node):
            yield from _dotted(part)


def _is_part(x: object) -> bool:
    """Whether an object is a Python function that is neither Nacre's nor of other libraries that kernels know."""
    return isinstance(x, FunctionType) and x.__module__.partition(".")[0] not in LIBRARIES


def _unchanged(name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a name has the object that it had, or a number in place of a number or of nothing."""
    if name not in now or name not in before:
        return all(is_number(x.get(name, 0)) for x in (now, before))
    a, b = now[name], before[name]
    if a is b or (is_number(a) and is_number(b)):
        return True
    return type(a) is type(b) and isinstance(a, str | tuple | MethodType) and bool(a == b)


def _token(x: Any, parts: Mapping[int, int] | None = None) -> str:
    """The text of an object in a version."""
    if parts is not None and id(x) in parts:
        return f"part {parts[id(x)]}"
    if x is None or isinstance(x, str | int | float | tuple | DType | TensorType):
        return repr(cast("object", x))
    home = str(getattr(x, "__module__", ""))
    library = home.partition(".")[0]
    home = library if library in LIBRARIES else home
    return f"{home}.{getattr(x, '__qualname__', getattr(x, '__name__', type(x).__qualname__))}"


def _text_of_out(out: Any) -> str:
    """The description of outputs as text: that of a function is its source, with what its names have."""
    if not isinstance(out, FunctionType):
        return _token(out) if is_rule(out) else repr(out)
    code = out.__code__
    try:
        text = ast.unparse(source_of(code, packages=True).node)
    except NotConverted:
        text = f"{code.co_code.hex()} {code.co_names} {[c for c in code.co_consts if not isinstance(c, CodeType)]}"
    held = {n: out.__globals__[n] for n in code.co_names if n in out.__globals__}
    for name, cell in zip(code.co_freevars, out.__closure__ or (), strict=True):
        if cell != CellType():
            held[name] = cell.cell_contents
    return text + json.dumps({n: _token(x) for n, x in held.items()}, sort_keys=True)


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
        if is_rule(out) and any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(out).parameters.values()):
            raise ArgumentError(
                f"kernel: out of {f.__name__} must have a parameter for each input; got {shown(out)} with a star; "
                f"name them, {ADVICE}"
            )
        places = [p.name for p in listed if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        others = {p.name: p.default for p in listed if p.kind is inspect.Parameter.KEYWORD_ONLY}
        count = len(places) - _inputs(out) if is_rule(out) else len(_listed(out))
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
        if value is None or isinstance(value, str) or is_number(value):
            return value
        raise KindError(
            f"{self.name}: a parameter must be a number, a string or None; got {name}={shown(value)}; pass tensors as "
            "inputs, before the star"
        )


def is_rule(out: Any) -> bool:
    """Whether outputs are described by a function; a dtype, which can be called too, is none."""
    return callable(out) and not isinstance(out, DType)


def _inputs(out: Callable[..., Any]) -> int:
    """The number of inputs that a rule takes."""
    listed = inspect.signature(out).parameters.values()
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in listed)


def _listed(out: Any) -> list[Any]:
    """The types of outputs: a list of them, or a tuple that is not a shape and a dtype."""
    listed = isinstance(out, list) or (isinstance(out, tuple) and all(map(_is_type, cast("tuple[Any, ...]", out))))
    return list(cast("list[Any]", out)) if listed else [out]


def _is_type(x: Any) -> bool:
    """Whether an object is a type, or a shape and a dtype."""
    if isinstance(x, TensorType):
        return True
    return isinstance(x, tuple) and len(cast("tuple[Any, ...]", x)) == 2 and isinstance(x[0], tuple | list)


def output_types(
    name: str, out: Any, types: Sequence[TensorType], others: Mapping[str, Any], count: int
) -> tuple[TensorType, ...]:
    """The types of a kernel's outputs."""
    found = out
    if is_rule(out):
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
                remedy = "pass larger inputs"
                if isinstance(size, Dim):
                    remedy = 'give the symbolic size a least one, as in nacre.Dim("n", min=1)'
                raise ShapeError(f"kernel: sizes of outputs of {name} must be at least 0; got {size}; {remedy}")
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
    return json.dumps([list(map(_written, numbers)), _written(others)])


def decoded(values: str) -> tuple[list[dict[str, Plain]], dict[str, Plain]]:
    """The values of a text, for each function and of a call."""
    numbers, others = json.loads(values)
    return list(map(_read, numbers)), _read(others)


def _written(values: Mapping[str, Plain]) -> dict[str, Any]:
    """Values for JSON: NumPy's numbers as a dtype and bytes."""
    return {n: [str(x.dtype), x.tobytes().hex()] if isinstance(x, np.generic) else x for n, x in values.items()}


def _read(values: Mapping[str, Any]) -> dict[str, Plain]:
    return {n: _number_of(*cast("list[str]", x)) if isinstance(x, list) else x for n, x in values.items()}


def _number_of(dtype: str, bits: str) -> np.generic:
    return np.frombuffer(bytes.fromhex(bits), as_dtype(dtype).numpy)[0]
