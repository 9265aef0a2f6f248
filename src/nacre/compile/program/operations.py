"""The cache of eager operations: what runs an operation on operands of given types, made once.

One entry belongs to a primitive, its operands' types and its parameters.  Its program is built at the first call and
serves two native functions: one records nodes and is the target of `bind`, the other runs for interpreters that record
by themselves.  Operands that are views have entries of their own, by their strides.  Code of a numerics mode that is
not exact has one, too.  A registered pass or kernel begins a new generation, in which the cache is empty.

A public function on tensors is an operation as well, by its name and the tensors' types: with promotion and
broadcasting, it is one program.  Where it consists of one primitive, it shares that primitive's entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, cast

from nacre.base.cached_property import cached_property
from nacre.base.locks import Turns
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.codegen.entry.points import entry, view_entry
from nacre.codegen.entry.recording import MOST, Recording
from nacre.compile.extensions import forget_on_change, generation
from nacre.compile.program.ahead import equation_rule, function_rule
from nacre.compile.program.cache import program
from nacre.compile.program.first_settings import FirstSettings, without_sizes
from nacre.compile.program.functions import ExaminedFunctions, single, traced
from nacre.compile.program.kinds import Kinds, Strides, Writer, Written, strides_of
from nacre.compile.program.operation_graphs import (
    graph_of,
    may_be_view,
    strides_or_dense,
    view_of,
    writer_of,
    written_function,
)
from nacre.compile.program.sized import OFTEN, Numbers, SizedProgram, counted, run_fixed
from nacre.compile.program.strided import ByStrides, OnViews, dense
from nacre.interpret.anomalies.detector import is_examined
from nacre.interpret.check import check_now
from nacre.interpret.evaluate import view
from nacre.interpret.host import call_now
from nacre.interpret.pullback import NoRule, Rule, rule_for
from nacre.interpret.tape import recorded, rule_of_call
from nacre.ir.graph import Equation, Graph, has_effects
from nacre.ir.primitive import Host, Primitive, RangeCheck
from nacre.runtime.executable import Executable
from nacre.trace.bind import NATIVE, PARTS, apply, plain_params
from nacre.trace.value import Payload, Value, is_concrete, make

REMEMBERED = 4096  # cached operations; where shapes keep changing, old ones are prepared again

Function = Callable[..., Any]
Types = tuple[TensorType, ...]
RuleFor = Callable[[tuple[int, ...]], "Rule | None"]  # how it is recorded where these operands have nodes
Target = Callable[[Sequence[Value]], Function]  # makes the target of an operation, for operands of its first call
OnStrides = Callable[[Sequence[Value], Strides], "Function | None"]  # its native function for operands that are views


class CachedOperation:
    """A primitive on operands of given types: its program or its view, made once, for all native functions that run it.

    `fallback` serves operands that `plain` does not support.  Operands of a `strided` program may be views.
    """

    def __init__(
        self, primitive: Primitive, types: Types, made: Executable | Value, fallback: Function, strided: bool = False
    ) -> None:
        self.primitive, self.types, self.made, self.fallback, self.strided = primitive, types, made, fallback, strided

    def native(self, fallback: Function, nodes: bool | Recording) -> Function:
        """A native function that runs it on plain operands, and treats nodes as `codegen.entry.points.entry` does."""
        if isinstance(self.made, Value):
            return view_entry(self.types[0], self.made, fallback, nodes)
        return entry(self.made, fallback, nodes, strided=self.strided)

    @cached_property
    def plain(self) -> Function:
        """The native function that ignores nodes; it returns a tuple for a primitive of several results."""
        made = self.native(self.fallback, False)
        if not self.primitive.multiple:
            return made

        def several(*inputs: Value) -> Any:
            """The results as a tuple, even if there is only one."""
            found = made(*inputs)
            return found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]

        return several


class Operations:
    """The operations that were called, by primitive, operand types, parameters and numerics mode.

    `trace.bind.NATIVE` lists the same entries by their targets: the functions that `bind` and the public functions
    call.  `execute` runs the graph that defines a primitive.
    """

    def __init__(self, execute: Callable[[Graph, Sequence[Value]], Sequence[Value]]) -> None:
        self.execute = execute
        self.known: dict[object, CachedOperation] = {}
        self.numbers: set[object] = set()  # operations with a Python number that were called once
        self.kinds = Kinds()
        self.examined = ExaminedFunctions()
        self.calls: dict[object, int] = {}  # of operations without an entry
        self.settings = FirstSettings()
        self.turns = Turns()  # one thread makes an entry that several need at the same time
        forget_on_change(self.forget)

    def forget(self) -> None:
        """Drop all entries, because code is compiled in another way from now on."""
        self.numbers.clear()
        self.calls.clear()
        self.settings.forget()
        self.kinds.forget()
        self.examined.forget()
        self.turns.clear(self.known, NATIVE)

    # ---- the first call of operand types, for `bind` and the public functions

    def first(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Answer a call of `bind` for which NATIVE has no target, and make the target."""
        if isinstance(primitive.lowering, Host):
            return apply(primitive, inputs, params)
        found = self._served(key, inputs)
        if found is not None:
            return found
        sized = PARTS.definition is not None and PARTS.definition.takes(params)
        if sized or has_effects(primitive, params):
            return apply(primitive, inputs, params)
        params = plain_params(params) if params else params

        def general(*inputs: Value) -> Any:
            """The operation on any operands."""
            return apply(primitive, inputs, params)

        def target(inputs: Sequence[Value]) -> Function:
            """The native function for operands of these types."""
            return self._recorded(key, primitive, inputs, params, general)

        if may_be_view(primitive) and not self._is_often(key):
            if not STATE.word and not isinstance(inputs[0].content, Payload):
                strides = None if dense(inputs) else strides_of(inputs)
                self.kinds.find(cast("Sequence[object]", key), writer_of(primitive), strides)
            viewed = self._viewed(primitive, inputs, params)
            return general(*inputs) if viewed is None else viewed
        on_strides = self._on_strides(primitive, params, general)
        return self.answer(key, inputs, general, target, writer_of(primitive), on_strides)

    def first_function(self, key: Sequence[object], function: Function, tensors: Sequence[Value]) -> Any:
        """Answer a call of a public function for which NATIVE has no target, and make the target.

        The key begins with the function's name.  The function itself must not look for the key in NATIVE.
        """
        found = self._served(key, tensors)
        if found is not None:
            return found
        function = self.examined.within(key, function)

        def write(types: Sequence[TensorType], params: Mapping[str, Any], strides: Strides | None) -> Written | None:
            """The function for other sizes of operands."""
            return written_function(function, tuple(types), strides)

        def on_strides(tensors: Sequence[Value], strides: Strides) -> Function | None:
            """The native function for tensors of these strides."""
            graph = traced(function, tuple([x.type for x in tensors]))
            if graph is None or all([may_be_view(e.primitive) for e in graph.equations]):
                return None
            found = self.kinds.find(key, write, strides)
            made = None if found is None or found[0].program is None else found[0].program.at(found[1])
            made = made or program(graph, strides_or_dense(graph.input_types, strides))
            return entry(made, function, strided=True)

        def target(tensors: Sequence[Value]) -> Function:
            """The native function for dense tensors."""
            return self._fused(function, tensors, on_strides)

        return self.answer(key, tensors, function, target, write, on_strides)

    def first_often(self, key: Any, function: Function, tensors: Sequence[Value]) -> Any:
        """The same for a function whose key has many values, as places have; calls that are rare have no target."""
        if STATE.word or not STATE.usual or not self._is_often(key) or not self.settings.has(key, key[:2]):
            return function(*tensors)
        return self.first_function(key, function, tensors)

    def first_with_number(self, key: Sequence[object], function: Function, tensors: Sequence[Value]) -> Any:
        """The same for a function that contains a Python number, whose target is made at the second call.

        A number that occurs only once, as the rates of a schedule do, needs no program of its own.
        """
        kind = without_sizes(key)
        if kind in self.numbers:
            return self.first_setting(key, [p for p in key if not isinstance(p, int | float)], function, tensors)
        result = function(*tensors)
        if (not STATE.word or is_examined()) and STATE.usual:
            if len(self.numbers) >= REMEMBERED:
                self.numbers.clear()
            self.numbers.add(kind)
        return result

    def first_setting(self, key: Any, shared: Sequence[object], function: Function, tensors: Sequence[Value]) -> Any:
        """The same for one of the settings of an operation; `shared` is the key without them."""
        if not STATE.word and STATE.usual and not self.settings.has(key, shared):
            return function(*tensors)
        return self.first_function(key, function, tensors)

    def _served(self, key: Any, inputs: Sequence[Value]) -> Value | None:
        """The answer of an operation that is known for all sizes; None where that does not serve the call."""
        return None if STATE.word or not STATE.usual else self.kinds.served(key, inputs)

    def answer(
        self,
        key: Any,
        inputs: Sequence[Value],
        general: Function,
        target: Target,
        write: Writer,
        on_strides: OnStrides,
    ) -> Any:
        """Make the target of a key and call it; calls that no native code supports go to `general`.

        Where the operation is known for all sizes, a target is made for those that come often alone.
        """
        if STATE.word or not STATE.usual:
            return general(*inputs)
        is_dense = True
        for x in inputs:
            if isinstance(x.content, Payload):
                return general(*inputs)
            is_dense = is_dense and x.layout is None
        if is_dense:
            found = self.kinds.find(key, write)
            if found is None or (sized := found[0].program) is None:
                return self._fill(key, lambda: target(inputs))(*inputs)
            operation, numbers = found
            if not operation.is_often(numbers) or len(inputs) > MOST:
                try:
                    return operation(inputs, numbers)
                except NoRule:
                    return general(*inputs)

            def of_sizes() -> Function:
                """The target for these sizes."""
                rule = partial(operation.rule, numbers=numbers)
                return _as_program(sized.at(numbers), inputs, rule, general, on_strides)

            return self._fill(key, of_sizes)(*inputs)
        answer = partial(self.answer, general=general, target=target, write=write, on_strides=on_strides)
        # it has no code, so each thread may make one
        made: Function = OnViews(general, on_strides, lambda *inputs: answer(key, inputs))
        if len(NATIVE) < REMEMBERED:
            made = NATIVE.setdefault(key, made)
        found = self.kinds.find(key, write, strides_of(inputs))
        if found is not None and found[0].program is not None and not found[0].is_often(found[1]):
            with suppress(NoRule):
                return found[0](inputs, found[1])
        return made(*inputs)

    def _fill(self, key: object, made: Callable[[], Function]) -> Function:
        """The target of a key for dense operands."""
        found = NATIVE.get(key)
        if type(found) is OnViews:
            self.turns.drop(NATIVE, key, found)
        return self.turns.fill(NATIVE, key, REMEMBERED, made, generation)

    def _recorded(
        self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], general: Function
    ) -> Function:
        """The target of a primitive: native for plain dense tensors, whose nodes it records."""
        types = tuple([x.type for x in inputs])
        if primitive.multiple or len(types) > MOST:
            return general
        operation = self._operation(key, primitive, types, params)
        recording = _recording(inputs, lambda active: equation_rule(primitive, params, types, active))
        made = ByStrides(recording.fallback(general), self._on_strides(primitive, params, general))
        return operation.native(made, recording)

    def _on_strides(self, primitive: Primitive, params: Mapping[str, Any], general: Function) -> OnStrides:
        """What makes the native functions of a primitive for operands that are views."""

        def made(inputs: Sequence[Value], strides: Strides) -> Function | None:
            """The native function for operands of these strides."""
            if primitive.multiple or may_be_view(primitive) or primitive.expansion is not None:
                return None
            types = tuple([x.type for x in inputs])
            return entry(self._built(primitive, types, params, strides), general, strided=True)

        return made

    def _fused(self, function: Function, tensors: Sequence[Value], on_strides: OnStrides) -> Function:
        """The target of a public function: its primitive's, or that of all its equations as one program."""
        graph = traced(function, tuple([x.type for x in tensors]))
        if graph is None:
            return function
        one = single(graph)
        viewed = view_of(graph) if one is None else None
        if viewed is not None:
            recording = _recording(tensors, partial(function_rule, graph))
            return view_entry(tensors[0].type, viewed, recording.fallback(function), recording)
        if one is None:
            return _as_program(program(graph), tensors, partial(function_rule, graph), function, on_strides)
        primitive, params = one.primitive, one.params
        key = (primitive, *[x.type for x in tensors], *params.items())

        def general(*inputs: Value) -> Any:
            """The operation on any operands."""
            return apply(primitive, inputs, params)

        return self._fill(key, lambda: self._recorded(key, primitive, tensors, params, general))

    def _viewed(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Value | None:
        """The view of a plain tensor without a node; None if the result is no view, or recorded."""
        x = inputs[0]
        if STATE.word or len(inputs) > 1 or not is_concrete(x) or (x.node is not None and STATE.gradients):
            return None
        return view(primitive, (x,), params, primitive.result_types((x.type,), params)[0])

    def _is_often(self, key: object) -> bool:
        """Count a call; whether there have been several with this key."""
        return counted(self.calls, key) > OFTEN

    def rule(
        self, primitive: Primitive, types: Types, params: Mapping[str, Any], active: tuple[int, ...]
    ) -> Rule | None:
        """How an equation on plain operands is recorded where some of them have nodes."""
        if not (primitive.multiple or primitive.effects):
            found = self.kinds.find((primitive, *types, *params.items()), writer_of(primitive))
            if found is not None:
                with suppress(NoRule):
                    return found[0].rule(active, found[1])
        return (rule_for if primitive.multiple else equation_rule)(primitive, params, types, active)

    # ---- operations without nodes, for interpreters

    def evaluate(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run one primitive on values with numbers, by a program for these types that is built at the first call."""
        key = (primitive, *[x.type for x in inputs])
        if params:
            key = (*key, *params.items())
        if STATE.numerics != "exact":
            key = (*key, STATE.numerics)
        operation = self.known.get(key)
        return self._evaluate(key, primitive, inputs, params) if operation is None else operation.plain(*inputs)

    def plain(self, e: Equation) -> Function | None:
        """The native function of an equation on dense operands without nodes; None for one that only Python runs."""
        p, types = e.primitive, tuple([a.type for a in e.inputs])
        if p.multiple or p.expansion is not None or has_effects(p, e.params) or isinstance(p.lowering, Host):
            return None
        mode = () if STATE.numerics == "exact" else (STATE.numerics,)
        return self._operation((p, *types, *e.params.items(), *mode), p, types, e.params).plain

    def _evaluate(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run an operation that has no entry: a new one, a view, a call, or one on operands that are views."""
        if not all(map(is_concrete, inputs)):
            return _report_leftover(primitive, inputs, params)
        if (has_effects(primitive, params) or isinstance(primitive.lowering, Host)) and primitive.expansion is None:
            return self._act(primitive, inputs, params)
        types = tuple([x.type for x in inputs])
        results = primitive.result_types(types, params)
        viewed = None if primitive.multiple else view(primitive, list(inputs), params, results[0])
        if viewed is not None:
            if inputs[0].layout is None and self._is_often(key):
                self._operation(key, primitive, types, params)
            return viewed
        if primitive.expansion is not None:
            return tuple(self.execute(primitive.expansion(params), inputs))
        if not results:
            return ()
        if not dense(inputs):
            return self._evaluate_strided(primitive, inputs, params)
        found = self._for_all_sizes(primitive, types, params)
        if found is not None and found[0].count(found[1]) <= OFTEN:
            return found[0].once(inputs, found[1])[0]
        return self._operation(key, primitive, types, params).plain(*inputs)

    def _for_all_sizes(
        self, primitive: Primitive, types: Types, params: Mapping[str, Any], strides: Strides | None = None
    ) -> tuple[SizedProgram, Numbers] | None:
        """The program of an operation that is known for all sizes, and the numbers of its symbols; None for others."""
        if primitive.multiple:
            return None
        found = self.kinds.find((primitive, *types, *params.items()), writer_of(primitive), strides)
        return None if found is None or found[0].program is None else (found[0].program, found[1])

    def _built(
        self, primitive: Primitive, types: Types, params: Mapping[str, Any], strides: Strides | None = None
    ) -> Executable:
        """The program of one primitive for operands of these types, dense or with these strides."""
        found = self._for_all_sizes(primitive, types, params, strides)
        if found is not None:
            return found[0].at(found[1])
        layouts = None if strides is None else strides_or_dense(types, strides)
        return program(graph_of(primitive, types, params), layouts)

    def _act(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run a host call, or an operation with effects.  No program is cached: it would keep the functions alive."""
        if isinstance(primitive.lowering, RangeCheck):
            check_now(inputs, params)
            return ()
        types = tuple([x.type for x in inputs])
        if isinstance(primitive.lowering, Host):
            return call_now(primitive, params, inputs, primitive.result_types(types, params))
        return tuple(self.execute(graph_of(primitive, types, params), inputs))

    def _operation(self, key: object, primitive: Primitive, types: Types, params: Mapping[str, Any]) -> CachedOperation:
        """The entry for dense operands, with its program."""
        return self.turns.fill(
            self.known, key, REMEMBERED, lambda: self._of_dense(key, primitive, types, params), generation
        )

    def _of_dense(self, key: object, primitive: Primitive, types: Types, params: Mapping[str, Any]) -> CachedOperation:
        """A new entry for dense operands."""
        viewed = None
        if not primitive.multiple:
            result = primitive.result_types(types, params)[0]
            viewed = view(primitive, [make(t, None) for t in types], params, result)

        def on_views(*inputs: Value) -> Any:
            """Run the primitive on operands that are not all dense."""
            return self._evaluate_strided(primitive, inputs, params)

        def view_of_view(*inputs: Value) -> Any:
            """The view of an operand that is a view itself, or a copy where it cannot be one."""
            return self._evaluate(key, primitive, inputs, params)

        if viewed is not None:
            return CachedOperation(primitive, types, viewed, view_of_view)
        return CachedOperation(primitive, types, self._built(primitive, types, params), on_views)

    def _evaluate_strided(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
        """Run on operands that are views: their strides are part of the kernel, their offsets arguments of the call."""
        strides = strides_of(inputs)
        key = (primitive, *[x.type for x in inputs], *params.items(), strides, STATE.numerics)
        operation = self.known.get(key)
        if operation is None and all(map(is_concrete, inputs)):
            found = self._for_all_sizes(primitive, tuple([x.type for x in inputs]), params, strides)
            if found is not None and found[0].count(found[1]) <= OFTEN:
                return found[0].once(inputs, found[1])[0]
        if operation is None:
            operation = self.turns.fill(
                self.known, key, REMEMBERED, lambda: self._of_strides(primitive, inputs, params, strides), generation
            )
        return operation.plain(*inputs)

    def _of_strides(
        self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], strides: Strides
    ) -> CachedOperation:
        """A new entry for operands of these types and strides."""
        types = tuple([x.type for x in inputs])
        executable = self._built(primitive, types, params, strides)

        def general(*inputs: Value) -> Any:
            """Run on operands that are not plain tensors."""
            if not all(map(is_concrete, inputs)):
                return _report_leftover(primitive, inputs, params)
            outputs = run_fixed(executable, inputs)
            return tuple(outputs) if primitive.multiple else outputs[0]

        return CachedOperation(primitive, types, executable, general, strided=True)


def _as_program(
    executable: Executable, inputs: Sequence[Value], derived: RuleFor, function: Function, on_strides: OnStrides
) -> Function:
    """The target of a function that is one program, made at its call on these inputs."""
    rule_for = cache(derived)

    def general(*inputs: Value) -> Any:
        """The function on any operands; the program, where only another thread's transformation refused the entry."""
        if STATE.word or not STATE.usual or not dense(inputs) or not all(map(is_concrete, inputs)):
            return function(*inputs)
        try:
            rule = rule_of_call(inputs, rule_for)
        except NoRule:
            return function(*inputs)
        (y,) = run_fixed(executable, inputs)
        return y if rule is None else recorded(rule, inputs, y)

    recording = _recording(inputs, rule_for)
    return entry(executable, ByStrides(recording.fallback(general), on_strides), recording)


def _report_leftover(primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Any:
    """Let the first operand that is a leftover of a trace that has ended report that."""
    leftover = next(x for x in inputs if not is_concrete(x))
    return leftover.content.interpreter.process(primitive, inputs, params)


def _recording(inputs: Sequence[Value], rule: RuleFor) -> Recording:
    """The recording of an operation, which knows the rule for these operands from the start."""
    recording = Recording(len(inputs), rule)
    if STATE.gradients:
        recording.learn(inputs)
    return recording
