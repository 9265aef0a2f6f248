"""The trace of a jitted function: one run on placeholders, which becomes a concrete function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from nacre.base import tree
from nacre.base.errors import Error, TraceError, UnknownNumber, explain
from nacre.base.types import TensorType
from nacre.interpret.numbers.staged_number import StagedNumber
from nacre.interpret.numbers.traced_number import NumberInputs, itself
from nacre.interpret.stage import Staging, Trace, note_line, stage
from nacre.interpret.tape import sources
from nacre.trace.captures import Captures
from nacre.trace.guards import Guard, recording, reported
from nacre.trace.reads import Reads, reading
from nacre.trace.value import Value
from nacre.trace.variable import Variable, scope
from nacre.transform.arguments import require_results
from nacre.transform.autograph.appends import AppendedList
from nacre.transform.autograph.conversions import Conversions, explained, forget_unbound, unbound
from nacre.transform.concrete import ConcreteFunction
from nacre.transform.leftover import require_no_leaves, require_nothing_kept, require_plain, require_unchanged

Traced = tuple[Trace, tuple[Guard, ...], Captures, tuple[int | None, ...]]


class _Again(Exception):
    """A function was converted: the trace starts again."""


class _Tracing:
    """One run of a function on placeholders, and the properties of its result that the graph lacks."""

    structure: tree.Structure
    reads: Reads

    def __init__(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, numbers: NumberInputs | None
    ) -> None:
        self.name, self.function, self.arguments = (
            name,
            function if numbers is None else numbers.function,
            (args, kwargs),
        )
        self.numbers = numbers
        self.leaves: list[Any] = tree.flatten(self.arguments)[0]
        self.rebuilt: list[Any] = []  # objects made for the trace
        self.statics: list[tuple[int, Any]] = []
        self.tracked = False
        self.superseded: tuple[int, ...] = ()
        self.changed: list[int] = []

    def flat(self, *staged: Value) -> Sequence[Value]:
        """The tensors of the result, then the arguments that the function changed."""
        given, given_data = iter(staged), [x.content for x in staged]
        filled = [next(given) if isinstance(x, Value | np.ndarray) else x for x in self.leaves]
        args, kwargs = tree.replaced(self.arguments, iter(filled), self.rebuilt)
        before = [tree.opened(x) for x in self.rebuilt]
        answer = self.function(*args, **kwargs)
        require_unchanged(self.name, self.rebuilt, before, answer)
        leaves, self.structure = tree.flatten(answer)
        require_results(self.name, leaves)
        tensors: list[Value] = []
        for k, leaf in enumerate(leaves):
            leaf = leaf.value if isinstance(leaf, Variable) else leaf
            leaf = leaf.held if type(leaf) is StagedNumber else leaf
            if type(leaf) is AppendedList:
                leaf.refuse("return", "a return of the list")
            if isinstance(leaf, Value):
                tensors.append(leaf)
            else:
                leaf = itself(leaf)
                require_plain(self.name, leaf)
                self.statics.append((k, leaf))
        require_no_leaves(self.name, staged, tensors)
        self.tracked, self.superseded = _followed(cast("Staging", scope()), tensors)
        self.changed = [k for k, x in enumerate(staged) if x.content is not given_data[k]]
        return tensors + [staged[k] for k in self.changed]

    def run(self, types: Sequence[TensorType], conversions: Conversions) -> Traced:
        """The trace, the guards of the state that it read, its captures, and which of these its inputs are."""
        try:
            with recording() as found, reading(_Tracing.flat.__code__, self.function, self.numbers) as reads:
                self.reads = reads
                if conversions.wanted(reads.functions):
                    raise _Again
                for leaf in self.leaves:
                    reads.add(leaf, "an argument")
                trace = stage(self.flat, types, self.name)
                if conversions.caught(reads.functions):
                    raise _Again
                require_nothing_kept(self.name, self.function)
                captures = reads.captures(reported())
        except UnknownNumber as fault:
            if conversions.add(fault, self.reads.functions):
                raise _Again from None
            explained(fault, conversions)
            note_line(fault, self.name)
            raise
        except Error as fault:
            note_line(fault, self.name)
            raise
        except NameError as fault:
            told = unbound(fault)
            if told is None:
                raise
            note_line(told, self.name)
            raise told from fault
        except RecursionError as fault:
            endless = _endless(self.name)
            endless.with_traceback(fault.__traceback__)
            note_line(endless, self.name)
            raise endless from None
        within = set(map(id, self.rebuilt))  # the key describes objects made for the trace
        if reads.conflict:
            raise TraceError(f"{self.name}: a number that changes must be read by its name alone; got another way")
        guards = tuple(g for g in found if (owner := g.owner()) is not None and id(owner) not in within)
        return trace, guards, captures, tuple(map(reads.source(captures), trace.captures))


def _converted(
    work: Callable[[], _Tracing], types: Sequence[TensorType], conversions: Conversions
) -> tuple[_Tracing, Traced]:
    """A run of the function, with converted functions where Python requests the truth of traced values."""
    while True:
        made = work()
        try:
            with conversions.active():
                return made, made.run(types, conversions)
        except _Again:
            forget_unbound()


def traced(
    name: str,
    function: Callable[..., Any],
    key: Hashable,
    types: Sequence[TensorType],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    why: str,
    numbers: NumberInputs | None = None,
    conversions: Conversions | None = None,
) -> ConcreteFunction:
    """The concrete function of a signature, from one run of the function; `why` is the reason of its compilation.

    With `numbers`, the function reads some captured numbers as inputs.
    """
    work, (trace, guards, captures, sources) = _converted(
        lambda: _Tracing(name, function, args, kwargs, numbers), types, conversions or Conversions(False)
    )
    shown = ", ".join(str(k) if isinstance(k, TensorType) else repr(k) for k in key[1])  # type: ignore[index]
    return ConcreteFunction(
        f"{name}({shown})",
        why,
        key,
        trace,
        work.structure,
        work.statics,
        guards,
        captures,
        sources,
        work.tracked,
        tuple(work.changed),
        work.superseded,
        gradient_none=tuple(
            (r.variable, r.gradient_was_none) for r in trace.variables if r.gradient_was_none is not None
        ),
        gradient_hooks=tuple((r.variable, *r.hooks) for r in trace.variables if r.hooks is not None),
        gradient_wanted=tuple((r.variable, r.wanted) for r in trace.variables),
        variable_types=tuple((r.variable, r.variable.type) for r in trace.variables),
        gradient_inputs=tuple(trace.gradient_inputs),
        variable_inputs=tuple(trace.variable_inputs),
        variable_outputs=tuple(trace.variable_outputs),
        gradient_outputs=tuple(trace.gradient_outputs),
        cleared=tuple(trace.gradients_cleared),
    )


def _followed(staging: Staging, results: Sequence[Value]) -> tuple[bool, tuple[int, ...]]:
    """Whether a call is recorded for a later `backward`, and the results that no backward pass can start from.

    The latter depend only on variables that the function then overwrites, as in training steps.
    """
    alive = tuple(k for k, x in enumerate(results) if _alive(x.node))
    written = {r.leaf for r in staging.records.values() if r.written}
    if any(_alive(g.node) for g in staging.written_gradients()):
        return True, ()
    if all(sources(results[k].node) <= written for k in alive):
        return False, alive
    return True, ()


def _alive(node: Any) -> bool:
    return node is not None and not getattr(node, "released", False)


def _endless(name: str) -> TraceError:
    return TraceError(
        explain(
            f"{name}: recursion must end while the function is traced; it reached Python's recursion limit of "
            f"{sys.getrecursionlimit()} calls",
            "@nc.jit\ndef power(x, n):\n    return power(x, n - 1) * x if n > 0 else nc.ones_like(x)\n"
            "power(x, nc.tensor(3))",
            "While a function is traced, tensors have no numbers, so it cannot decide to stop "
            "calling "
            "itself; Python values have.",
            "def power(x, n):\n    return nc.fori_loop(0, n, lambda k, y: y * x, nc.ones_like(x))",
        )
    )
