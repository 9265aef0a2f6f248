"""The functions that a jitted function needs in their converted form, found while it is traced.

A function is traced as it is, first.  Where Python requests the truth of a traced value, the function that asks is
converted, and the trace starts again.  While it runs, the function objects have the converted code: so they share
cells, globals and defaults with their original, and everything that calls them calls the converted form.  Converted
code that runs eagerly in another thread meanwhile does what the original does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from nacre.base.errors import REQUESTS, Error, UnknownNumber
from nacre.base.lazy import LateModule
from nacre.base.locks import forkable
from nacre.base.places import is_users
from nacre.native.interpreter import function_of
from nacre.trace.bytecode import starts_loop, within
from nacre.trace.iteration import LOOPS
from nacre.transform.autograph.refusal import REFUSALS, NotConverted

if TYPE_CHECKING:
    from nacre.transform.autograph import build, messages, runtime
else:  # few programs need them
    build = LateModule("nacre.transform.autograph.build")
    messages = LateModule("nacre.transform.autograph.messages")
    runtime = LateModule("nacre.transform.autograph.runtime")

EXPRESSIONS: Final = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # code of parts of a function
PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
ASKS: Final = frozenset({"bool", "index", "iter", "str"})  # of `if`, `while`, `assert`, `range`, `for` and `print`

TRIES: Final = 8  # traces that one code object may begin again


_lock = forkable()
_swapped: dict[int, tuple[FunctionType, CodeType, int]] = {}  # functions, their own code, and the traces that hold it


class Conversions:
    """The converted functions of one jitted function."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._codes: list[tuple[ref[FunctionType], CodeType]] = []
        self.found: dict[int, build.Converted] = {}  # the conversions, by the identity of their original code
        self._tries: dict[int, int] = {}  # by the identity of code
        self.plain: dict[int, CodeType] = {}  # code that has no conversion, by its identity: its loops are unrolled

    @property
    def texts(self) -> list[str]:
        """The converted functions for readers, in the order in which they were found."""
        return [c.text for c in self.found.values()]

    def add(self, fault: UnknownNumber, functions: Iterable[FunctionType]) -> bool:
        """Convert the function that requests a number, so that the trace can start again; whether it can.

        If not, the error says why.
        """
        if not self.enabled or fault.operation not in ASKS:
            return False
        if self._convert_last(fault, functions):
            return True
        if fault.operation == "iter":  # the loop is unrolled
            code = list(_frames(fault.__traceback__))[-1].f_code
            self.plain[id(code)] = code
        return fault.operation == "iter"

    def _convert_last(self, fault: UnknownNumber, functions: Iterable[FunctionType]) -> bool:
        """Convert the innermost of the user's functions in the traceback; whether that is done."""
        frames = list(_frames(fault.__traceback__))
        frame = frames.pop() if frames else None
        while frame is not None and frame.f_code.co_name in EXPRESSIONS and frames:
            code = frame.f_code
            frame = next((f for f in reversed(frames) if any(c is code for c in within(f.f_code))), None)
        if frame is None:
            return False
        if build.is_converted(frame.f_code):
            return False
        return self.convert(frame.f_code, [function_of(frame), *map(function_of, frames), *functions], fault)

    def convert(self, code: CodeType, functions: Iterable[FunctionType], fault: UnknownNumber | None = None) -> bool:
        """Convert a code object wherever functions have it; whether that is done."""
        tries = self._tries[id(code)] = self._tries.get(id(code), 0) + 1
        if tries > TRIES:  # of functions that each trace makes again, where nothing shows what makes them
            return False
        try:
            made = build.converted(code, runtime.Runtime)
        except NotConverted as refusal:
            if fault is not None:
                title, *rest = fault.args[0].split("\n", 1)
                fault.args = ("\n".join([f"{title}; {refusal}", *rest]),)
            return False
        self.found[id(code)] = made
        changed = False
        held = {id(f): c for r, c in self._codes if (f := r()) is not None}
        for function in {id(f): f for f in functions}.values():
            now = held.get(id(function), function.__code__)
            new = build.replaced(now, code, made.code)
            if new is not now:
                changed = True
                held[id(function)] = new
                self._codes = [(r, c) for r, c in self._codes if r() not in (None, function)]
                self._codes.append((ref(function), new))
        return changed

    def caught(self, functions: Iterable[FunctionType]) -> bool:
        """Convert functions whose requests for numbers the user's code caught; whether the trace must start again.

        Raises the error of converted code that was caught: which code ran must not depend on that.
        """
        known = list(functions)
        if any([self.add(fault, known) for fault in REQUESTS.found or ()]):
            return True
        for fault, error in REFUSALS.found:
            raise fault if isinstance(fault, Error) else error(fault) from fault
        return False

    def offer(self) -> None:
        """Request the conversion of the function that begins a `for` over rows, if it has not been refused.

        Raises UnknownNumber, with which the trace starts again.
        """
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is None or build.is_converted(frame.f_code) or id(frame.f_code) in self.plain:
            return
        if starts_loop(frame.f_code, frame.f_lasti):
            raise UnknownNumber("iter: the loop over the rows of a traced tensor has no conversion", "iter")

    def wanted(self, functions: Iterable[FunctionType]) -> bool:
        """Convert functions that print, so that they print when the program runs; whether there are new ones."""
        if not self.enabled:
            return False
        known = list(functions)
        printing = {
            id(code): code
            for f in known
            for code in (f.__code__, *within(f.__code__))
            if "print" in code.co_names and not build.is_converted(code) and is_users(code.co_filename)
        }
        outermost = [c for c in printing.values() if not any(c is x for o in printing.values() for x in within(o))]
        return any([self.convert(code, known) for code in outermost])

    @contextmanager
    def active(self) -> Generator[None]:
        """Give the functions their converted code."""
        swapped = [(f, code) for r, code in self._codes if (f := r()) is not None]
        with _lock:
            for function, code in swapped:
                _, own, times = _swapped.get(id(function), (function, function.__code__, 0))
                _swapped[id(function)] = function, own, times + 1
                function.__code__ = code
        outer = REQUESTS.found, REFUSALS.found, LOOPS.offer
        LOOPS.offer = self.offer if self.enabled else None
        REQUESTS.found, REFUSALS.found = [] if self.enabled else None, []
        try:
            yield
        finally:
            REQUESTS.found, REFUSALS.found, LOOPS.offer = outer
            with _lock:
                for function, _ in swapped:
                    _, own, times = _swapped.pop(id(function))
                    if times > 1:
                        _swapped[id(function)] = function, own, times - 1
                    else:
                        function.__code__ = own


def _frames(step: TracebackType | None) -> Generator[Any]:
    """The frames of a traceback outside of the package."""
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(PACKAGE):
            yield step.tb_frame
        step = step.tb_next


def explained(fault: UnknownNumber, conversions: Conversions) -> None:
    """Say in an error of converted code that Python itself requests the number."""
    frames = list(_frames(fault.__traceback__))
    if (
        conversions.enabled
        and frames
        and build.is_converted(frames[-1].f_code)
        and fault.args[0].startswith("bool: the tensor")
    ):
        last = frames[-1]
        place = f"{os.path.basename(last.f_code.co_filename)}:{last.f_lineno}, in {last.f_code.co_qualname}"
        fault.args = (messages.unconverted(fault.args[0].splitlines()[0], place),)


def unbound(fault: NameError) -> Exception | None:
    """The error for a variable that has a value on some paths only, if that is why it has none."""
    return messages.unbound(fault)


def forget_unbound() -> None:
    """A trace starts again: variables have values again."""
    messages.forget_unbound()
