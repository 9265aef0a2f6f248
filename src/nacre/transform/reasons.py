"""Why a jitted function was compiled again: the differences from its variants, in plain English."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nacre.base.tree import Structure
from nacre.base.types import TensorType
from nacre.interpret.stage import outer_level
from nacre.transform.concrete import ConcreteFunction


def reason(
    function: Callable[..., Any], key: Any, variants: Sequence[ConcreteFunction], order: Sequence[ConcreteFunction]
) -> str:
    """The difference from the last of `variants`, which have this key, or else from the most similar variant."""
    if not order:
        return "first call"
    if variants:
        return "; ".join(_of_state(variants[-1])) or "state that was read has changed"
    named = list(leaf_names(function, key[0]))
    keys: list[Any] = [other.key for other in reversed(order)]
    similar = [other for other in keys if other[0] == key[0]] or keys
    return "; ".join(min((_of_keys(key, other, named) for other in similar), key=len))


def warn_of_many(name: str, count: int, what: str, why: str, remedy: str) -> None:
    """Warn that a function has many variants, with the reason for the last one."""
    warnings.warn(
        f"{name} was compiled {count} times for {what}; {why}; {remedy}, or see .concrete_functions",
        stacklevel=outer_level(),
    )


def _of_state(before: ConcreteFunction) -> Iterator[str]:
    """The current values of variables and attributes that the function reads, where they differ from the variant's."""
    for v, type in before.variable_types:
        yield from _of_types(v.name or "a variable", v.type, type)
    yield from (str(g) for g in before.guards if not g.holds())
    if not before.captures.holds():
        yield from before.captures.differences()
    for v, was in before.gradient_none:
        if (v.gradient is None) != was:
            yield f"{v.name or 'a variable'}.grad {'has' if was else 'had'} been set"
    for v, was in before.gradient_wanted:
        if v.requires_grad != was:
            yield f"{v.name or 'a variable'}.requires_grad is {v.requires_grad}, was {was}"
    for v, hooks in before.gradient_hooks:
        if v.hooks is not hooks and v.hooks != hooks:
            yield f"{v.name or 'a variable'} has other hooks"


def _of_types(name: str, now: TensorType, before: TensorType) -> list[str]:
    found: list[str] = []
    if now.dtype is not before.dtype:
        found.append(f"{name}: dtype is {now.dtype.name}, was {before.dtype.name}")
    if now.shape != before.shape:
        found.append(f"{name}: shape is {_shape(now)}, was {_shape(before)}")
    return found


def _shape(type: TensorType) -> str:
    return f"[{', '.join(map(str, type.shape))}]"


def _of_keys(now: Any, before: Any, named: Sequence[str]) -> list[str]:
    """The differences of two signatures: structure, dtypes, shapes, Python values, and then the modes."""
    if now[0] != before[0]:
        return [*_of_structures(now[0], before[0], named), *_of_modes(now[2], before[2])]
    dtypes: list[str] = []
    shapes: list[str] = []
    values: list[str] = []
    for name, a, b in zip(named, now[1], before[1], strict=True):
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            for difference in _of_types(f"argument {name}", a, b):
                (dtypes if ": dtype is " in difference else shapes).append(difference)
        elif a != b:
            values.append(f"argument {name} is {_shown(a)}, was {_shown(b)}")
    return [*dtypes, *shapes, *values, *_of_modes(now[2], before[2])]


def _shown(part: Any) -> str:
    return f"a tensor {part}" if isinstance(part, TensorType) else repr(part)


def _of_modes(now: Any, before: Any) -> Iterator[str]:
    """The differences of two ambient states."""
    records, numerics, infers, examined, low = now
    recorded, numerics_before, inferred, examined_before, low_before = before
    if records != recorded:
        negated, was = ("", "were not") if records else ("not ", "were")
        yield f"gradients are {negated}recorded now, and {was} before"
    if numerics != numerics_before:
        yield f"nc.numerics is {numerics!r}, was {numerics_before!r}"
    if infers != inferred:
        yield f"inference mode is {'on' if infers else 'off'}, was {'on' if inferred else 'off'}"
    if examined != examined_before:
        yield f"anomalies are {'' if examined else 'not '}detected now, and {'were not' if examined else 'were'} before"
    if low is not low_before:
        yield f"autocast is {_autocast(low)} now, and {_autocast(low_before)} before"


def _autocast(low: Any) -> str:
    return "off" if low is None else f"to {low.name}"


def _of_structures(now: Structure, before: Structure, named: Sequence[str]) -> Iterator[str]:
    """The differences of two structures of arguments, each `(args, kwargs)`."""
    args, args_before = now.children[0].children, before.children[0].children
    if len(args) != len(args_before):
        yield f"{len(args)} positional argument{'' if len(args) == 1 else 's'}, {len(args_before)} before"
    words, words_before = (", ".join(map(str, _keys(container.children[1]))) or "none" for container in (now, before))
    if words != words_before:
        yield f"keyword arguments are {words}, were {words_before}"
    at = 0
    for k, (a, b) in enumerate(zip(args, args_before, strict=False)):
        if a != b:
            name = named[at].partition("[")[0] if a.leaves else str(k)
            kind, kind_before = _container(a), _container(b)
            yield (
                f"argument {name} is {kind}, was {kind_before}"
                if kind != kind_before
                else f"argument {name} has another structure"
            )
        at += a.leaves
    if words == words_before and now.children[1] != before.children[1]:
        yield "a keyword argument has another structure"


def _container(container: Structure) -> str:
    if container.kind is None:
        return "one value"
    if container.kind is type(None):
        return "None"
    return f"a {container.kind.__name__} of {len(container.children)}"


def _keys(container: Structure) -> Sequence[Any]:
    """The keys of a dict."""
    data: Any = container.data
    return data


def leaf_names(function: Callable[..., Any], structure: Structure) -> Iterator[str]:
    """The names of the arguments' leaves in errors and reasons: by parameter, or by number if that is unknown."""
    positional = _parameters(function)
    args, kwargs = structure.children
    for k, child in enumerate(args.children):
        yield from paths(positional(k), child)
    for key, child in zip(_keys(kwargs), kwargs.children, strict=True):
        yield from paths(str(key), child)


def _parameters(function: Callable[..., Any]) -> Callable[[int], str]:
    """The name of a positional argument by its number."""
    try:
        listed = list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):  # of functions not written in Python
        return str
    fixed = [p.name for p in listed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in listed if p.kind is p.VAR_POSITIONAL), None)

    def name(k: int) -> str:
        """The name of one of them, or its place among the remaining ones."""
        if k < len(fixed):
            return fixed[k]
        return str(k) if rest is None else f"{rest}[{k - len(fixed)}]"

    return name


def paths(name: str, container: Structure) -> Iterator[str]:
    """The names of the leaves of a container."""
    if container.kind is None:
        yield name
        return
    keys = (
        [repr(k) for k in _keys(container)]
        if container.kind is dict
        else list(map(str, range(len(container.children))))
    )
    known = container.kind in (tuple, list, dict) and len(keys) == len(container.children)
    for k, child in enumerate(container.children):
        yield from paths(f"{name}[{keys[k]}]" if known else name, child)
