"""Hooks: functions that a backward pass calls with the gradient of a value, and handles that remove them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, Self
from weakref import WeakSet

_numbers = itertools.count()

NumberedHook = tuple[int, Callable[..., Any]]


class HookHandle:
    """The handle of a registered hook; `remove` removes the hook, and so does the end of `with handle:`."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self.forget = forget

    def remove(self) -> None:
        """Remove the hook; it is not called any more."""
        self.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.remove()


class GradientHooks:
    """What a backward pass does with the complete gradient of one value; a change makes another object.

    The functions `before` get the gradient and may return another one.  Those `after`, of leaves only, run without
    arguments after the gradient was accumulated.  With `retains`, `gradient` accumulates the gradient of a result.
    """

    __slots__ = ("__weakref__", "after", "before", "gradient", "retains")

    def __init__(
        self,
        before: tuple[NumberedHook, ...] = (),
        after: tuple[NumberedHook, ...] = (),
        retains: bool = False,
        gradient: Any = None,
    ) -> None:
        self.before, self.after, self.retains, self.gradient = before, after, retains, gradient
        LIVE.add(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradientHooks) and self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return id(self)

    def _meaning(self) -> tuple[object, ...]:
        return [id(f) for _, f in self.before], [id(f) for _, f in self.after], self.retains


LIVE: Final[WeakSet[GradientHooks]] = WeakSet()  # a backward pass looks for hooks only if there are some


def added(hooks: GradientHooks | None, hook: Callable[..., Any], after: bool) -> tuple[GradientHooks, int]:
    """The hooks with one more, and its number."""
    held = hooks or GradientHooks()
    entry = next(_numbers), hook
    before, later = (held.before, (*held.after, entry)) if after else ((*held.before, entry), held.after)
    return GradientHooks(before, later, held.retains, held.gradient), entry[0]


def removed(hooks: GradientHooks | None, number: int) -> GradientHooks | None:
    """The hooks without the one of a number; None if nothing is left."""
    if hooks is None:
        return None
    before, after = (tuple(e for e in entries if e[0] != number) for entries in (hooks.before, hooks.after))
    if not (before or after or hooks.retains):
        return None
    return GradientHooks(before, after, hooks.retains, hooks.gradient)
