"""A process in which allocations of a call's native entries fail, each in turn.

Its arguments: how many fail in a row (after some more than eight CPython itself ends the process), and names of cases.
It prints a line of JSON for each case: the number of allocations that failed, and the faults that were found.

Allocations fail only inside of native entries, and not in Python functions that these call: CPython 3.11 itself loses
objects, and may crash, where an iterator of a dict, a cell or a generator has no memory.  The collector is off
meanwhile: that of CPython 3.12 runs after the native call, and says that it has no memory for the name of its phase.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any, Final

import _testcapi  # pyright: ignore  # isort: skip
from nacre.base.state import STATE
from nacre.codegen.entry import points
from nacre.native import compile_workers

ROUNDS: Final = 4  # of failures of all allocations in turn, in each of which memory must grow by less than one object
TRIES: Final = 10  # because CPython keeps some blocks now and then; a leak grows each time
MOST: Final = 2000  # allocations of a call
NEVER: Final = -1


def drained() -> list[Any]:
    """Objects that take what CPython keeps of freed ones, so that a call asks the system's allocator for its own."""
    taken: list[Any] = [(None,) * n for n in range(1, 20) for _ in range(2001 if n in (2, 3) else 40)]
    taken += [float(k) for k in range(120)]
    taken += [[] for _ in range(90)]
    taken += [{} for _ in range(90)]
    return taken


class Failures:
    """Which allocations fail: those of a native call from a number on.  And what the call has done."""

    def __init__(self) -> None:
        self.calls = 0  # native calls so far
        self.target = NEVER  # the one whose allocations fail
        self.first, self.length = 0, 1
        self.armed = False  # whether allocations fail now
        self.reached = False  # whether it allocated so much
        self.held: list[Any] = []
        self.broken = ""  # a result with an exception, or none without one


plan: Final = Failures()


def disarm() -> None:
    """Let no allocation fail from here on, and note whether one did."""
    if plan.armed:
        plan.armed = False
        if plan.length == 1:
            try:
                bytes(600)  # which fails if the call has allocated no more than before
            except MemoryError:
                plan.reached = False
        _testcapi.remove_mem_hooks()


class Armed:
    """A native entry whose allocations may fail."""

    def __init__(self, native: Callable[..., Any]) -> None:
        self.native, self.__self__ = native, native.__self__  # type: ignore[attr-defined]

    def __call__(self, *args: Any) -> Any:
        here = plan.calls == plan.target
        plan.calls += 1
        native = self.native
        if not here:
            return native(*args)
        rows = plan.first, plan.first + plan.length  # a tuple that is not freed meanwhile
        held = drained()
        collects, fail = gc.isenabled(), _testcapi.set_nomemory
        gc.disable()
        plan.reached = plan.armed = True
        try:
            try:
                fail(*rows)
                return native(*args)
            finally:
                disarm()
                if collects:
                    gc.enable()
        except SystemError as fault:
            plan.broken = str(fault)
            raise
        finally:
            del held
            plan.held = []


class Disarmed:
    """A Python function that native code calls, with memory."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        disarm()
        return self.function(*args)


class Before(Disarmed):
    """A Python function that native code calls before anything else; allocations fail after it."""

    def __call__(self, *args: Any) -> Any:
        armed, plan.armed = plan.armed, False
        _testcapi.remove_mem_hooks()
        answer = self.function(*args)
        if armed:
            plan.armed, plan.held = True, drained()
            plan.held.append((plan.first, plan.first + plan.length))
            _testcapi.set_nomemory(*plan.held[-1])
        return answer


def arm() -> None:
    """Let all entries that are made from now on be armed."""
    function, entry, view, step = points._Entry.function, points.entry, points.view_entry, points.step_entry  # pyright: ignore
    points._Entry.function = lambda self, method: Armed(function(self, method))  # pyright: ignore
    points.entry = lambda program, fallback, *rest, **more: entry(program, Disarmed(fallback), *rest, **more)
    points.view_entry = lambda type, made, fallback, *rest: view(type, made, Disarmed(fallback), *rest)

    def of_step(program: Any, results: int, around: Any, holds: Any, finish: Any, fallback: Any) -> Any:
        finish = finish if finish in (None, tuple) else Disarmed(finish)
        return step(program, results, around, holds and Before(holds), finish, Disarmed(fallback))

    points.step_entry = of_step
    failing = points._failing  # pyright: ignore
    points._failing = lambda program: (raises := failing(program)) and Disarmed(raises)  # pyright: ignore


arm()  # before the modules that import these functions

import nacre.compile.program.executor  # noqa: E402, F401  (operations need it)
from nacre.compile.program.sized import OFTEN  # noqa: E402
from nacre.interpret.host import HostLaunch  # noqa: E402
from nacre.runtime import buffer  # noqa: E402
from nacre.trace import attributes, reads  # noqa: E402
from nacre.trace.variable import UPDATER, UPDATES  # noqa: E402
from robustness.memory_calls import BY_NAME, Case, bits, collect  # noqa: E402

is_outside = reads.is_outside
reads.is_outside = attributes.is_outside = lambda file: (
    file != __file__ and is_outside(file)
)  # traced functions run this code

launched = HostLaunch.__call__
HostLaunch.__call__ = lambda self, address: Disarmed(launched)(self, address)


class Sweep:
    """All allocations of a case's call fail, one after the other."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.faults: list[str] = []
        gc.collect()  # which also frees what CPython keeps, so that little is left to be drained
        case.begin()
        self.before = case.state()
        for _ in range(OFTEN + 2):  # until all operations have native entries
            case.begin()
            plan.calls = 0
            self.wanted = bits(case.call())
        self.after = case.state()
        compile_workers.help_out()
        while compile_workers._workers._threads:  # pyright: ignore[reportPrivateUsage]
            time.sleep(0.01)  # whose allocations would fail instead
        self.places: list[tuple[int, int]] = []  # the native call and the allocation
        for call in range(plan.calls):
            first = 0
            while first < MOST and self.once(call, first, 1):
                self.places.append((call, first))
                first += 1

    def say(self, text: str) -> None:
        if len(self.faults) < 10 and text not in self.faults:
            self.faults.append(text)

    def once(self, call: int, first: int, length: int) -> bool:
        """A call in which allocations fail; whether it allocated so much."""
        case = self.case
        case.begin()
        plan.calls, plan.target, plan.first, plan.length, plan.broken = 0, call, first, length, ""
        result, fault = None, None
        try:
            result = case.call()
        except BaseException as raised:
            raised.__traceback__ = raised.__context__ = None
            fault = raised
        plan.target = NEVER
        place = f"{length} from allocation {first} of native call {call}"
        if fault is None:
            if bits(result) != self.wanted:
                self.say(f"{place}: other numbers")
        elif not isinstance(fault, MemoryError):
            self.say(f"{place}: {type(fault).__name__}: {fault}")
        if plan.broken:
            self.say(f"{place}: {plan.broken}")
        state = case.state()
        if state != (self.before if fault else self.after):
            self.say(f"{place}: {'changed' if state == self.after else 'damaged'} variables, {fault!r}")
        if UPDATES.locked() or UPDATER.value or STATE.word or STATE.interpreters:
            self.say(f"{place}: the state of the process, {fault!r}")
        return plan.reached

    def fine(self, place: str) -> None:
        """Calls with memory do what they did."""
        self.case.begin()
        if bits(self.case.call()) != self.wanted or self.case.state() != self.after:
            self.say(f"{place}: other numbers afterwards")

    def measure(self, figures: array[int]) -> None:
        """References, blocks and buffers, without an allocation that stays."""
        self.case.begin()
        collect()
        for k, x in enumerate(self.case.watched):
            figures[k] = sys.getrefcount(x)
        used = buffer.statistics()
        figures[-3], figures[-2] = used.buffers, used.allocated
        del used
        figures[-1] = sys.getallocatedblocks()

    def grown(self, length: int) -> list[str]:
        """What has grown by as much in rounds of failures as a leak would make it grow."""
        names = [*(type(x).__name__ for x in self.case.watched), "buffers", "bytes", "blocks"]
        figures = [array("q", [0] * len(names)) for _ in range(2)]
        for number in range(ROUNDS + 2):
            if number in (1, ROUNDS + 1):
                self.measure(figures[number != 1])
            for call, first in self.places:
                self.once(call, first, length)
        return [
            f"{other - one} more of {name} in {ROUNDS} rounds of {length}"
            for name, one, other in zip(names, *figures, strict=True)
            if abs(other - one) >= ROUNDS
        ]

    def run(self, length: int) -> None:
        """Let all allocations fail, and then again to see whether memory grows."""
        self.fine("after single failures")
        grown: list[str] = []
        for _ in range(TRIES):
            grown = self.grown(length)
            if not grown:
                break
        self.faults += grown
        self.fine(f"after failures of {length}")


def main() -> None:
    faulthandler.enable()
    unraisable: list[str] = []
    sys.unraisablehook = lambda given: unraisable.append(f"{given.exc_type.__name__} in {given.object!r}")
    settling = Sweep(BY_NAME["one_result"]())
    for _ in range(500):  # in which CPython's caches fill
        settling.once(NEVER - 1, 0, 1)
    for name in sys.argv[2:]:
        print(json.dumps({"begun": name}), flush=True)
        began = time.process_time()
        sweep = Sweep(BY_NAME[name]())
        sweep.run(int(sys.argv[1]))
        took = time.process_time() - began
        faults = [*sweep.faults, *sorted({*unraisable})]
        unraisable.clear()
        line = {"name": name, "failures": len(sweep.places), "faults": faults, "seconds": round(took, 2)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
