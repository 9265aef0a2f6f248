"""`jit`: trace Python once for each signature, compile the graph, and call the machine code afterwards.

A *concrete function* belongs to one signature: the arguments' structure, types and plain values, the ambient state, and
guards (modules' plain attributes and missing gradients that were read while tracing).  Variables are captured: those
that the function reads become inputs, those that it writes are updated after the call.  Captured tensors and arrays are
inputs, too; other captured values are compared at each call (see `trace/captures`).
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any, Concatenate, Generic, Unpack, cast, overload
from weakref import WeakSet

import numpy as np

from nacre.base import tree
from nacre.base.dims import Dim
from nacre.base.errors import ArgumentError
from nacre.base.gc_pause import gc_paused
from nacre.base.locks import Turns, forkable
from nacre.base.progress import compiling
from nacre.base.size_binding import solve
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.codegen.entry.points import begin_step
from nacre.compile.extensions import forget_on_change, generation
from nacre.compile.program.executor import EXECUTOR
from nacre.compile.program.tune import tune, wanted
from nacre.interpret.anomalies.detector import is_examined
from nacre.interpret.pullback import NoRule
from nacre.interpret.randomness import differs, operand
from nacre.interpret.stage import refuse_arguments
from nacre.interpret.tape import call_rule, rebind, record_call
from nacre.ir.graph import Graph
from nacre.ir.rewrite import FixedGraph, specialised
from nacre.ops.control import call
from nacre.trace.bind import executor
from nacre.trace.captures import CapturePlace
from nacre.trace.function_types import Options, P, Q, R
from nacre.trace.guards import report
from nacre.trace.modes import gradients
from nacre.trace.reads import note_captures
from nacre.trace.value import Value, give_up, is_concrete
from nacre.trace.variable import Variable
from nacre.transform.anomalies import AnomalyDetection, checked_kinds
from nacre.transform.arguments import name_of, require_function
from nacre.transform.autograph.conversions import Conversions
from nacre.transform.changing_numbers import ChangingNumbers
from nacre.transform.concrete import ConcreteFunction, statics_at
from nacre.transform.direct import native
from nacre.transform.dynamic import checked
from nacre.transform.jitted.inspection import JitInspection
from nacre.transform.jitted.memory_budget import budgeted, checked_budget, require_not_recorded
from nacre.transform.jitted.method import JitMethod
from nacre.transform.leftover import require_changeable
from nacre.transform.ownership import in_place, uninterrupted
from nacre.transform.plain import bare, dense
from nacre.transform.reasons import leaf_names, reason, warn_of_many
from nacre.transform.signature import Signatures
from nacre.transform.sizes import MANY, MOST, Call, SizeHistory, SizeUses, compile_symbolic, require_fixed
from nacre.transform.tracing import traced

__all__ = ["jit"]

_first = forkable()
_turns = Turns()  # one thread traces and compiles a signature
_all: WeakSet[Jitted[..., Any]] = WeakSet()
SIZES = 256  # forms of one variant for given sizes, and types of arguments whose native code is found first


class Jitted(JitInspection, Generic[P, R]):
    """A jitted function.  Call it like the original function."""

    def __init__(
        self,
        function: Callable[P, R],
        dynamic_shapes: Mapping[str, Mapping[int, Dim]] | None,
        donate: Sequence[str] = (),
        dynamic: bool = True,
        autograph: bool = True,
        detect_anomalies: bool | str | Collection[str] = False,
        memory_budget: int | str | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.name = name_of(function)
        self.donate = frozenset(donate)
        self.budget = checked_budget(memory_budget, dynamic_shapes is not None)
        self.dynamic = dynamic and self.budget is None
        self.conversions = Conversions(autograph)
        self.detected = checked_kinds("jit", detect_anomalies)
        called = getattr(function, "forward", function)  # a module has the parameters of its `forward`
        parameters = inspect.signature(called) if dynamic_shapes or donate else None
        names: tuple[str, ...] = tuple(parameters.parameters) if parameters is not None else ()
        self.dynamic_shapes = checked("jit", self.name, names, dynamic_shapes)
        self._signatures = Signatures(self.name, parameters, self.dynamic_shapes)
        for name in self.donate:
            if name not in names:
                has = ", ".join(names)
                raise ArgumentError(f"jit: donate must name parameters of {self.name}; got {name!r}; it has {has}")
        self.sizes = SizeHistory(partial(leaf_names, function), self._leave, self._warn_of_sizes)
        self.known: dict[Hashable, list[ConcreteFunction]] = {}
        self.fast: dict[tuple[TensorType, ...], Callable[..., Any]] = {}
        self.fast_ambient: object = None  # the ambient state of the first function in `fast`, which is never removed
        self.only: Callable[..., Any] | None = None  # the only entry of `fast`, if there is one
        self.order: list[ConcreteFunction] = []
        self.dropped = 0  # variants that were replaced
        self._finds = itertools.count(1)
        self._numbers = ChangingNumbers(function)
        with _first:
            _all.add(self)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Jitted[P, R]: ...
    @overload
    def __get__(self: Jitted[Concatenate[Any, Q], R], instance: object, owner: Any = None) -> JitMethod[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else JitMethod(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs and STATE.ambient is self.fast_ambient:
            only = self.only
            if only is not None:  # it checks the types itself
                return only(*args)
            try:
                fast = self.fast[tuple([x.type for x in args])]  # type: ignore[attr-defined]
            except (KeyError, AttributeError):
                pass
            else:
                return fast(*args)
        return self.slow(*args, **kwargs)

    # ---- the general path

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call on the general path: find or make the variant, then run it."""
        if self.detected and not STATE.word:  # inside of other transformations, the outermost one decides
            with AnomalyDetection(self.detected):
                return self.slow(*args, **kwargs)
        of = self._signatures.of(args, kwargs)
        concrete = self._form(self._serving(of), of)
        self._prefer(concrete)
        if concrete.changed:
            leaves: list[Any] = tree.flatten((args, kwargs))[0]
            given: list[Any] = [x for x in leaves if isinstance(x, Value | np.ndarray)]
            require_changeable(self.name, given, concrete.changed)
        return self._run(concrete, of.values)

    def _serving(self, of: Call) -> ConcreteFunction:
        """The variant that serves a call: for its own sizes, or for symbolic ones."""
        return self.sizes.serve(of, self._find) if self.dynamic else self._find(of)

    def _form(self, concrete: ConcreteFunction, of: Call) -> ConcreteFunction:
        """A variant, or its form for the sizes of a call."""
        if not concrete.symbolic:
            return concrete
        found = concrete.forms.get(of.shapes)
        if found is None:
            sizes = solve(concrete.graph.input_types[: len(of.values)], of.shapes)
            if not all(isinstance(n, int) for n in sizes.values()):  # the arguments have symbols, too
                trace = replace(concrete.trace, graph=specialised(concrete.graph, sizes))
                return replace(concrete, trace=trace, statics=statics_at(concrete, sizes))
            found = concrete.at(of.exact_key, sizes)
            self._native(found, of.exact_key)
            if len(concrete.forms) >= SIZES:
                concrete.forms.clear()
            concrete.forms[of.shapes] = found
        return found

    def _find(self, of: Call) -> ConcreteFunction:
        """The variant of a call's signature."""
        variants = self.known.setdefault(of.key, [])
        return self._known(variants) or _turns.take(id(variants), lambda: self._make(variants, of))

    def _known(self, variants: Sequence[ConcreteFunction]) -> ConcreteFunction | None:
        """The variant whose guards hold."""
        for concrete in variants:
            if concrete.holds():
                concrete.used = next(self._finds)
                for g in concrete.guards:  # a calling function has the same dependencies
                    report(g.owner(), *g.path)
                note_captures(concrete.captures)
                return concrete
        return None

    def _make(self, variants: list[ConcreteFunction], of: Call) -> ConcreteFunction:
        """A new variant, or the one that another thread has made in the meantime."""
        found = self._known(variants)
        if found is not None:
            return found
        solve(of.types, of.shapes)
        before, began = len(variants), generation()
        why = reason(self.function, of.key, variants, self.order)
        if of.note:
            why = of.note if of.symbolic and not variants else f"{why}; {of.note}"
        with gc_paused(), compiling(self.name):
            if of.symbolic:
                concrete = SizeUses(of.numbers or {}, self.function, (of.args, of.kwargs)).watched(
                    lambda: self._with_symbols(of, why, self._numbers.changing(variants))
                )
                compile_symbolic(concrete)
            else:
                concrete = self._trace(of, why, self._numbers.changing(variants))
        concrete.generation = began
        found = self._known(variants[before:])  # if two threads waited for each other, both have traced
        if found is None:
            concrete.used = next(self._finds)
            variants.append(concrete)
            self.order.append(concrete)
            self._drop(variants)
        if began != generation():  # a pass or a kernel was registered meanwhile
            self.order = [c for c in self.order if c is not concrete]
            return self._find(of)
        if found is not None:
            return found
        self._prefer(concrete)
        self._warn(variants)
        return concrete

    def _drop(self, variants: list[ConcreteFunction]) -> None:
        """Forget the variant of one signature that was found longest ago, if there are too many."""
        with _first:
            if len(variants) <= MOST:
                return
            oldest = min(variants, key=lambda c: (c.native in self.fast.values(), c.used))
            variants[:] = [c for c in variants if c is not oldest]
            self.order = [c for c in self.order if c is not oldest]
            self.dropped += 1

    def _leave(self, keys: Sequence[Hashable]) -> None:
        """Forget the variants of some signatures.  The next call of each other one starts on the general path."""
        with _first:
            gone = {id(c) for key in keys for c in self.known.pop(key, ())}
            self.order = [c for c in self.order if id(c) not in gone]
            self.dropped += len(gone)
            self.fast, self.only = {}, None

    def _with_symbols(self, of: Call, why: str, changing: Sequence[CapturePlace]) -> ConcreteFunction:
        """A variant with symbols for sizes that have changed."""
        concrete = self._trace(of, why, changing)
        require_fixed(concrete)
        return concrete

    def _trace(self, of: Call, why: str, changing: Sequence[CapturePlace]) -> ConcreteFunction:
        donated = self._donated(of.args, of.kwargs)
        concrete = self._numbers.traced(self.name, of, why, changing, self.conversions) if changing else None
        if concrete is None:
            why += "".join(self._numbers.reasons(changing))
            given = of.key, of.types, of.args, of.kwargs
            concrete = traced(self.name, self.function, *given, why, conversions=self.conversions)
        concrete = budgeted(concrete, self.name, self.budget)
        concrete.given = donated
        self._native(concrete, of.key)
        return concrete

    def _donated(self, args: Any, kwargs: Any) -> tuple[int, ...]:
        """The tensors in the arguments that the caller gives up."""
        if not self.donate:
            return ()
        leaves: list[Any] = tree.flatten((args, kwargs))[0]
        names = zip(self._signatures.leaf_names(args, kwargs), leaves, strict=True)
        tensors = [name for name, x in names if isinstance(x, Value | np.ndarray)]
        return tuple(k for k, name in enumerate(tensors) if name in self.donate)

    def _native(self, concrete: ConcreteFunction, key: Any) -> None:
        """Prepare the native way of a call, where the sizes are fixed."""
        if concrete.symbolic:
            return
        if not concrete.bare:
            begin_step()
        executable = concrete.executable
        if wanted():
            tune(executable)
        concrete.in_place = in_place(concrete.trace, concrete.given, executable)
        flat = key[0].children[1].leaves == 0 and all(c == tree.LEAF for c in key[0].children[0].children)
        concrete.flat = flat and all(isinstance(k, TensorType) for k in key[1])
        concrete.native = native(concrete, partial(self._refused if concrete.flat else self._in_python, concrete))

    def _prefer(self, concrete: ConcreteFunction) -> None:
        """Let calls with arguments of these types start with the variant's native code, which checks the rest."""
        if concrete.native is None or not concrete.flat:
            return
        _, types, ambient = cast("Any", concrete.key)
        if self.fast_ambient is ambient and self.fast.get(types) is concrete.native:
            return
        with _first:
            if concrete.generation != generation():
                return
            self.fast_ambient = self.fast_ambient or ambient
            if self.fast_ambient is ambient:
                if len(self.fast) >= SIZES:
                    self.fast = {}
                self.fast[types] = concrete.native
                self.only = concrete.native if len(self.fast) == 1 else None

    def _run(self, concrete: ConcreteFunction, values: list[Value]) -> Any:
        (concrete.whole or concrete).calls += 1
        if concrete.given and not STATE.word:
            try:
                return self._call(concrete, values)
            finally:
                for k in concrete.given:
                    give_up(values[k], self.name)
        return self._call(concrete, values)

    def _call(self, concrete: ConcreteFunction, values: Sequence[Value]) -> Any:
        if concrete.trace.recorded and not STATE.gradients:
            with gradients(True):
                return self._call(concrete, values)
        refuse_arguments(self.name, concrete.trace, values)
        inputs = [*values, *concrete.captured()]
        examined, known = is_examined(), all(map(is_concrete, inputs))  # unless arguments or captures are placeholders
        if (STATE.word and not examined) or not known:
            inputs += map(operand, concrete.variable_inputs)
        elif STATE.gradients and (concrete.tracked or any(x.node is not None for x in inputs)):
            require_not_recorded(self.name, self.budget)
            inputs += [v.value for v in concrete.variable_inputs]
        elif examined:
            inputs += [v.settled() for v in concrete.variable_inputs]
            inputs += [v.gradient_cell for v in concrete.gradient_inputs]
            return self._put_back(concrete, values, executor().execute(_written(concrete), inputs))
        else:
            if concrete.native is None or (concrete.flat and not concrete.holds()):
                return self._in_python(concrete, *values)
            return concrete.native(*map(bare, values))
        inputs += [v.gradient for v in concrete.gradient_inputs]  # as one operation, for interpreters and the tape
        if concrete.whole is not None and not STATE.word and known:
            whole = concrete.whole.graph
            try:
                rule = call_rule(whole, inputs)
            except NoRule:  # a derivative that has no form for symbolic sizes may have one for these
                pass
            else:
                return self._put_back(concrete, values, record_call(rule, whole, concrete.sizes, inputs))
        return self._put_back(concrete, values, call(_written(concrete), *inputs))

    def _refused(self, concrete: ConcreteFunction, *args: Any) -> Any:
        """The answer to arguments that the native way has refused, and that are perhaps not of this variant."""
        if STATE.word:
            return self.slow(*args)
        plain = [dense(x) for x in args]
        if any(a is not b for a, b in zip(plain, args, strict=True)):
            return concrete.native(*plain)  # type: ignore[misc]
        return self._in_python(concrete, *args) if concrete.serves(args) else self.slow(*args)

    def _in_python(self, concrete: ConcreteFunction, *values: Value) -> Any:
        """The Python way of a call on plain values: shared memory, unusual contents of variables, donated arguments."""
        inputs: list[Any] = [*values, *concrete.captured()]
        if not all(map(is_concrete, inputs)):  # a captured placeholder
            return self._call(concrete, values)
        inputs += [v.settled() for v in concrete.variable_inputs]
        inputs += [v.gradient_cell for v in concrete.gradient_inputs]
        if concrete.in_place is None:
            return self._put_back(concrete, values, EXECUTOR.execute(concrete.graph, inputs))
        made: list[Any] = []
        with uninterrupted():
            try:
                concrete.in_place.run(concrete.graph, inputs, made)
                return self._put_back(concrete, values, _outputs(concrete, made))
            except BaseException:
                if made:  # variables are being overwritten: an interrupt waits until all have their new values
                    self._put_back(concrete, values, _outputs(concrete, made))
                raise

    def _put_back(self, concrete: ConcreteFunction, values: Sequence[Value], outputs: Sequence[Value]) -> Any:
        at = concrete.trace.results
        results = list(outputs[: at - len(concrete.changed)])
        for k, value in zip(concrete.changed, outputs[len(results) : at], strict=True):
            rebind(values[k], value)
        refuses = (STATE.word and not is_examined()) or not all(map(is_concrete, outputs))
        hold = Variable.assign if refuses else Variable.hold
        for v in concrete.variable_outputs:
            if not STATE.word or not differs(v):
                hold(v, outputs[at])
            at += 1
        for v in concrete.gradient_outputs:
            v.gradient = outputs[at]
            at += 1
        for v in concrete.cleared:
            v.gradient = None
        return concrete.answer(results)

    # ---- inspection

    def __reduce__(self) -> Any:
        name: str = getattr(self.function, "__qualname__", "")
        found: Any = sys.modules.get(self.function.__module__)
        for word in name.split("."):
            found = getattr(found, word, None)
        if found is self:
            return name
        more = self.dynamic, self.conversions.enabled, self.detected, self.budget
        return _again, (self.function, self.dynamic_shapes, tuple(self.donate), *more)

    def __repr__(self) -> str:
        count = len(self.order)
        return f"<jit {self.name}: {count} concrete function{'' if count == 1 else 's'}>"

    @property
    def concrete_functions(self) -> list[ConcreteFunction]:
        """The compiled variants, in order of creation, each with its reason."""
        return list(self.order)

    @property
    def converted_source(self) -> str:
        """The source of the function and of those that it calls, as far as they were converted."""
        return "\n\n".join(self.conversions.texts)

    def concrete(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The compiled variant for these arguments, compiled if necessary, but not run."""
        return self._serving(self._signatures.of(args, kwargs))

    def _warn(self, variants: Sequence[ConcreteFunction]) -> None:
        recent = self.order[-MANY:]
        types = {tuple(k for k in c.key[1] if isinstance(k, TensorType)) for c in recent}  # type: ignore[index]
        if len(variants) == MANY or (len(self.order) == MANY and len(types) == 1):
            why = self.order[-1].reason
            warn_of_many(self.name, MANY, "the same tensor types", why, "pass changing numbers as tensors")

    def _warn_of_sizes(self, why: str) -> None:
        warn_of_many(self.name, MANY, "sizes that are numbers", why, "use no number there, or pad to a few sizes")


def _written(concrete: ConcreteFunction) -> Graph:
    """The graph of a variant; for a form of a variant with symbols, with its sizes."""
    return concrete.graph.written if isinstance(concrete.graph, FixedGraph) else concrete.graph


def _outputs(concrete: ConcreteFunction, made: Sequence[Any]) -> Sequence[Value]:
    """The results of a native call as a list; native code returns a single result bare."""
    return made[0] if len(concrete.graph.output_types) > 1 else made


def _forget() -> None:
    with _first:
        for jitted in list(_all):
            jitted.fast_ambient = jitted.only = None
            jitted.known, jitted.fast, jitted.order = {}, {}, []
            jitted.sizes.clear()


forget_on_change(_forget)


def _again(function: Any, *options: Any) -> Jitted[..., Any]:
    """A jitted function that was pickled or copied; it compiles again."""
    return Jitted(function, *options)


@overload
def jit(function: Callable[P, R], **options: Unpack[Options]) -> Jitted[P, R]: ...
@overload
def jit(**options: Unpack[Options]) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Mapping[int, Dim]] | None = None,
    donate: Sequence[str] = (),
    dynamic: bool = True,
    autograph: bool = True,
    detect_anomalies: bool | str | Collection[str] = False,
    memory_budget: int | str | None = None,
) -> Any:
    """Compiles a function: its first call for each signature traces it, later calls run machine code of equal bits.

    A second size of an axis makes one variant for all sizes.  A function that needs the number of a size has a variant
    for each.  `.concrete_functions` lists them with reasons.  With `dynamic=False`, each size has a variant.

    `dynamic_shapes` names axes whose size may change between calls, as in `{"x": {0: nc.Dim("batch", max=512)}}`; one
    compiled function then serves the whole range.  `donate` names parameters whose tensors the caller gives up: results
    may reuse their memory, and using them afterwards is an error.  Variables need no donation.

    `if`, `while`, `for`, `and`, `assert` and `print` on traced values become part of the program, which
    `.converted_source` shows, unless `autograph` is False.  With `detect_anomalies`, True or the kinds of
    `nc.detect_anomalies`, the first operation of a call with an anomaly raises AnomalyError.

    With `memory_budget`, in bytes or as "512MiB", some values are computed again, with equal bits, so that all fit it.
    `f.memory(...).recomputation` says which.  Each size has a variant.  OutOfMemory names the least budget.

    >>> import nacre as nc
    >>> @nc.jit
    ... def f(x):
    ...     return x * 2 + 1
    >>> f(nc.tensor([1.0, 2.0])).tolist()
    [3.0, 5.0]
    """
    if function is None:
        options = {"dynamic_shapes": dynamic_shapes, "donate": donate, "dynamic": dynamic, "autograph": autograph}
        return partial(jit, **options, detect_anomalies=detect_anomalies, memory_budget=memory_budget)
    require_function(function, "jit")
    return Jitted(function, dynamic_shapes, donate, dynamic, autograph, detect_anomalies, memory_budget)
