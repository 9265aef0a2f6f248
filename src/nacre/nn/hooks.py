"""Hooks of modules: user functions that run before and after `forward`, and in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

from nacre.base import tree
from nacre.base.errors import ArgumentError, GradientError
from nacre.interpret.tape import watched
from nacre.trace.hooks import HookHandle
from nacre.trace.value import Value
from nacre.trace.variable import Variable

When = Literal["before", "after", "backward before", "backward"]


class ModuleHook(NamedTuple):
    """A function that runs before or after `forward`, or before or after the module's part of the backward pass."""

    call: Callable[..., Any]
    when: When
    with_kwargs: bool = False
    always: bool = False  # also if an error ends the call


def hooked(module: Any, hooks: Sequence[ModuleHook], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `forward` of a module, with the hooks' changes to its arguments, its result and their gradients."""
    result: Any = None
    always = [hook for hook in hooks if hook.always]
    try:
        for hook in hooks:
            if hook.when == "before":
                args, kwargs = _changed(hook, args, kwargs, hook.call(module, args, *hook.with_kwargs * [kwargs]))
        backward = _Backward(module, hooks)
        if backward.needed:
            args = backward.inputs(args)
        result = module.forward(*args, **kwargs)
        for hook in hooks:
            if hook.when == "after":
                always = [h for h in always if h is not hook]
                changed = hook.call(module, args, *hook.with_kwargs * [kwargs], result)
                result = result if changed is None else changed
    except Exception as fault:
        for hook in always:
            _call_after(fault, hook, module, args, kwargs, result)
        raise
    return backward.outputs(result) if backward.needed else result


def _call_after(
    fault: Exception, hook: ModuleHook, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> None:
    """Call a hook after an error, to which an error of the hook becomes a note."""
    try:
        hook.call(module, args, *hook.with_kwargs * [kwargs], result)
    except Exception as another:
        fault.add_note(f"register_forward_hook: a hook with always_call raised {type(another).__name__}: {another}")


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


class WithHooks:
    """A module's hooks, in the order in which those of one kind run."""

    _hooks: tuple[ModuleHook, ...] = ()

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], with_kwargs: bool = False, *, prepend: bool = False
    ) -> HookHandle:
        """Call `hook(module, args)` before every `forward`; a result other than None replaces the arguments.

        With `with_kwargs` the call is `hook(module, args, kwargs)`, which returns both.  With `prepend` it runs before
        the other hooks.  Returns a handle; `remove()` removes the hook.

        >>> double = nn.Identity()
        >>> handle = double.register_forward_pre_hook(lambda module, args: args[0] * 2)
        >>> double(nc.ones(1)), handle.remove(), double(nc.ones(1))
        (Tensor([2.], f32[1]), None, Tensor([1.], f32[1]))
        """
        return self._register(ModuleHook(hook, "before", with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        with_kwargs: bool = False,
        *,
        prepend: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call `hook(module, args, result)` after every `forward`; a result other than None replaces the result.

        With `with_kwargs` the call is `hook(module, args, kwargs, result)`.  With `prepend` it runs before the other
        hooks.  With `always_call` it also runs if the call raises an error, with the result so far or None.  Returns a
        handle; `remove()` removes the hook.

        >>> layer = nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, result: print(result.shape))
        >>> _ = layer(nc.ones((4, 2)))
        (4, 3)
        """
        return self._register(ModuleHook(hook, "after", with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` after the backward pass has gone through the module.

        Both are tuples of gradients, of the positional arguments and of the results; None stands for no gradient.  A
        result other than None replaces `grad_input`; other types raise GradientError.  With `prepend` it runs before
        other hooks of its kind.  Eager hooks get numbers; in a traced function (`nc.jit`, `nc.grad`) they get traced
        values.  No hook is called if a function is differentiated as a whole: in `nc.vmap`, `nc.jvp`, `nc.checkpoint`
        and control flow.

        >>> layer = nn.Identity()
        >>> handle = layer.register_full_backward_hook(lambda module, inner, outer: (inner[0] * 10,))
        >>> x = nc.tensor([1.0, 2.0]).requires_grad_()
        >>> (layer(x) * 3).sum().backward(); x.grad.tolist()
        [30.0, 30.0]
        """
        return self._register(ModuleHook(hook, "backward"), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_output)` before the backward pass goes through the module.

        A result other than None replaces the gradients of the results; see `register_full_backward_hook`.

        >>> layer = nn.Linear(2, 1)
        >>> handle = layer.register_full_backward_pre_hook(lambda module, outer: print(outer[0].tolist()))
        >>> layer(nc.ones((1, 2))).sum().backward()
        [[1.0]]
        """
        return self._register(ModuleHook(hook, "backward before"), prepend)

    def _register(self, hook: ModuleHook, prepend: bool) -> HookHandle:
        self._hooks = (hook, *self._hooks) if prepend else (*self._hooks, hook)
        return HookHandle(partial(self._forget, hook))

    def _forget(self, hook: ModuleHook) -> None:
        self._hooks = tuple(h for h in self._hooks if h is not hook)
