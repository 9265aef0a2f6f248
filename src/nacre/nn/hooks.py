"""Hooks of modules: user functions that run before and after `forward`, and in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

from nacre.base import tree
from nacre.base.errors import ArgumentError, GradientError
from nacre.interpret.tape import watched
from nacre.trace.value import Value
from nacre.trace.variable import Variable

When = Literal["before", "after", "backward before", "backward"]


class ModuleHook(NamedTuple):
    """A function that runs before or after `forward`, or before or after the module's part of the backward pass."""

    call: Callable[..., Any]
    when: When
    with_kwargs: bool = False


def hooked(module: Any, hooks: Sequence[ModuleHook], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `forward` of a module, with the hooks' changes to its arguments, its result and their gradients."""
    for hook in hooks:
        if hook.when == "before":
            args, kwargs = _changed(hook, args, kwargs, hook.call(module, args, *hook.with_kwargs * [kwargs]))
    backward = _Backward(module, hooks)
    if backward.needed:
        args = backward.inputs(args)
    result = module.forward(*args, **kwargs)
    for hook in hooks:
        if hook.when == "after":
            changed = hook.call(module, args, *hook.with_kwargs * [kwargs], result)
            result = result if changed is None else changed
    return backward.outputs(result) if backward.needed else result


def _changed(hook: ModuleHook, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
    """The arguments after a hook, with its changes."""
    if found is None:
        return args, kwargs
    if not hook.with_kwargs:
        return cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,), kwargs
    pair = cast("tuple[Any, ...]", found)
    if not isinstance(found, tuple) or len(pair) != 2:
        raise ArgumentError(f"forward_pre_hook: the hook must return a pair (args, kwargs); got {type(pair).__name__}")
    return pair


Gradients = tuple[Any, ...]


class _Backward:
    """One call of a module in the backward pass, which reaches its results first, then its arguments."""

    def __init__(self, module: Any, hooks: Sequence[ModuleHook]) -> None:
        self.module = module
        self.first = [hook.call for hook in hooks if hook.when == "backward before"]
        self.last = [hook.call for hook in hooks if hook.when == "backward"]
        self.needed = bool(self.first or self.last)
        self.reaches = False  # whether an argument needs a gradient
        self.count = 0  # number of arguments
        self.given: Gradients = ()  # the gradients of the results

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, observed by the backward pass."""
        made = self._watched(args, self._at_arguments)
        self.count = len(tree.flatten(args)[0])
        self.reaches = any(x is not y for x, y in zip(tree.flatten(args)[0], tree.flatten(made)[0], strict=True))
        return made

    def outputs(self, result: Any) -> Any:
        """The results, observed by the backward pass."""
        return self._watched(result, self._at_results)

    def _watched(self, values: Any, heard: Callable[[Gradients], Gradients]) -> Any:
        leaves, structure = tree.flatten(values)
        places = [k for k, x in enumerate(leaves) if isinstance(x, Value) and not isinstance(x, Variable)]

        def all_of(found: Sequence[Value | None]) -> Sequence[Value | None]:
            """The gradients after all hooks, one for each leaf (None where there is none)."""
            spread: list[Any] = [None] * len(leaves)
            for k, gradient in zip(places, found, strict=True):
                spread[k] = gradient
            answer = heard(tuple(spread))
            return [answer[k] for k in places]

        for k, x in zip(places, watched([leaves[k] for k in places], all_of), strict=True):
            leaves[k] = x
        return tree.unflatten(structure, leaves)

    def _at_results(self, gradients: Gradients) -> Gradients:
        for call in self.first:
            gradients = _answer("full_backward_pre_hook", gradients, call(self.module, gradients))
        self.given = gradients
        if not self.reaches:
            self._at_arguments((None,) * self.count)
        return gradients

    def _at_arguments(self, gradients: Gradients) -> Gradients:
        for call in self.last:
            gradients = _answer("full_backward_hook", gradients, call(self.module, gradients, self.given))
        return gradients


def _answer(what: str, before: Gradients, found: Any) -> Gradients:
    """The gradients after a hook, with its changes."""
    if found is None:
        return before
    answer: Gradients = tuple(cast("Sequence[Any]", found)) if isinstance(found, tuple | list) else (found,)
    wanted, got = ([getattr(x, "type", None) for x in gradients] for gradients in (before, answer))
    if wanted != got:
        raise GradientError(
            f"{what}: the hook must return gradients of types {_shown(wanted)}; got {_shown(got)}; return None to "
            "leave them unchanged"
        )
    return answer


def _shown(types: Sequence[Any]) -> str:
    return f"({', '.join(map(str, types))})"
