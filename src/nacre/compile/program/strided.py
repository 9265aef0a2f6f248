"""Operations on operands some of which are views: one native function for each combination of strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nacre.base.state import STATE
from nacre.compile.program.kinds import Strides, strides_of
from nacre.compile.program.sized import OFTEN, counted
from nacre.trace.value import Payload, Value

MOST: Final = 64  # combinations of strides of one operation that have native functions

Function = Callable[..., Any]


def dense(inputs: Sequence[Value]) -> bool:
    """Whether no operand is a view."""
    return all([x.layout is None for x in inputs])


class ByStrides:
    """An operation on operands of given types: `general`, and native functions for views whose strides come often.

    `made` makes such a function for operands of a call; it returns None for an operation that is not one program.
    """

    __slots__ = ("calls", "general", "known", "made")

    def __init__(self, general: Function, made: Callable[[Sequence[Value], Strides], Function | None]) -> None:
        self.general, self.made = general, made
        self.known: dict[object, Function] = {}  # by the strides of the only operand, or of all
        self.calls: dict[object, int] = {}

    def __call__(self, *inputs: Value) -> Any:
        if STATE.word or not STATE.usual:
            return self.general(*inputs)
        strides: Any
        if len(inputs) == 1:
            layout = inputs[0].layout
            strides = None if layout is None else layout.strides
        else:
            strides = tuple([x.layout and x.layout.strides for x in inputs])
        native = self.known.get(strides)
        return self.first(inputs, strides) if native is None else native(*inputs)

    def first(self, inputs: Sequence[Value], strides: object) -> Any:
        """Answer a call for strides without a native function, and make it where they come often."""
        if dense(inputs) or any([isinstance(x.content, Payload) for x in inputs]):
            return self.general(*inputs)
        if counted(self.calls, strides) <= OFTEN:
            return self.general(*inputs)
        native = self.made(inputs, strides_of(inputs)) or self.general
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[strides] = native
        return native(*inputs)


class OnViews(ByStrides):
    """The target of types that occurred only as views: it has no program for dense operands until these come.

    `answer` makes the target for them.
    """

    __slots__ = ("answer",)

    def __init__(
        self, general: Function, made: Callable[[Sequence[Value], Strides], Function | None], answer: Function
    ) -> None:
        super().__init__(general, made)
        self.answer = answer

    def first(self, inputs: Sequence[Value], strides: object) -> Any:
        """The same; for dense operands by another target."""
        return self.answer(*inputs) if dense(inputs) else super().first(inputs, strides)
