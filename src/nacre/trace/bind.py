"""`bind`: the only way to apply a primitive; it calls the innermost interpreter concerned.

Interpreters nest.  Level 0 is plain evaluation, level 1 belongs to placeholders, whose interpreter is never active, and
every active transformation adds a level.  A value with a payload belongs to the level of its payload; a tape node wraps
the payload of its level.  The keys of values (2·level for a payload, 2·level + 1 for a node) order them, and the
greatest key decides.  Active staging takes all values up to its level.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from nacre.base.errors import StateError
from nacre.base.locks import forkable, of_threads_there
from nacre.base.state import STATE, autocast_to
from nacre.base.types import TensorType
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.trace.modes import StateBlock
from nacre.trace.value import PLACEHOLDERS, Payload, Value

# In all threads: active interpreters; these, and threads with autocast, or whose numerics are not exact, or whose tape
# notes source lines.  Native entries want 0.
INTERPRETING, ACTIVE = ctypes.c_int64(0), ctypes.c_int64(0)
_depths: dict[int, tuple[int, bool]] = {}  # by thread: interpreters, whether it has another of these modes
_counting = forkable()

T = TypeVar("T")
Result = Any  # Value, or a tuple of them for a primitive with several results


class Interpreter(Protocol):
    """A transformation in progress."""

    level: int
    dynamic: bool  # takes everything up to its level (staging)

    def process(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Result:
        """Apply a primitive to values, some of which belong to this interpreter."""
        ...


class Tape(Protocol):
    """Records equations on values that have nodes of a level."""

    def __call__(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any], level: int) -> Result:
        """Apply a primitive and record it for reverse mode at a level."""
        ...


class Casting(Protocol):
    """Converts operands as `autocast` does."""

    def __call__(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Result:
        """Apply a primitive to operands that are converted for the dtype of autocast."""
        ...


class Executor(Protocol):
    """Runs primitives and graphs on values that have numbers."""

    def evaluate(self, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Result:
        """Run a primitive on concrete values."""
        ...

    def execute(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph on concrete values."""
        ...

    def execute_on_views(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph of fixed sizes on concrete values, of which views are not copied."""
        ...

    def execute_at(self, graph: Graph, inputs: Sequence[Value], sizes: Mapping[str, int]) -> list[Value]:
        """Run a graph for given numbers of its symbols, always in the same order."""
        ...

    def rule(
        self, primitive: Primitive, types: tuple[TensorType, ...], params: Mapping[str, Any], active: tuple[int, ...]
    ) -> Any:
        """The `Rule` of an equation on operands, some of which have nodes, or None."""
        ...

    def mode(self) -> int:
        """The number of this thread's numerics mode and of the generation of compiled code."""
        ...

    def sweep(self) -> Callable[..., Any]:
        """The native backward pass over plain nodes."""
        ...

    def prepare(self, rule: Any, pull: Any) -> None:
        """Let the native backward pass process the nodes of a `Rule` whose `Pull` this is, after a few nodes."""
        ...

    def first(self, key: object, primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Result:
        """Apply a primitive outside of interpreters for which NATIVE has no target, and add the target."""
        ...


class SizedByPlaceholders(Interpreter, Protocol):
    """The interpreter of placeholders."""

    def takes(self, params: Mapping[str, Any]) -> bool:
        """Whether parameters have a size of a placeholder, so that even a result of constants has no numbers yet."""
        ...


class _Parts:
    """Components that higher packages register at import; the last one once a placeholder has a symbolic size."""

    tape: Tape
    casting: Casting
    executor: Executor
    definition: SizedByPlaceholders | None = None


PARTS = _Parts()


def register_tape(tape: Tape) -> None:
    """Register the tape (`interpret.tape` calls this)."""
    PARTS.tape = tape


def register_casting(casting: Casting) -> None:
    """Register the conversions of autocast (`interpret.precision` calls this)."""
    PARTS.casting = casting


def register_executor(executor: Executor) -> None:
    """Register the executor of primitives and graphs (`compile.pipeline` calls this)."""
    PARTS.executor = executor


def register_definition(definition: SizedByPlaceholders) -> None:
    """Register the interpreter of placeholders (the first one with a symbolic size calls this)."""
    PARTS.definition = definition


def executor() -> Executor:
    """The registered executor of primitives and graphs."""
    try:
        return PARTS.executor
    except AttributeError:
        raise StateError("executor: no executor is registered; run `import nacre` before operations") from None


# The targets of eager operations: `apply` in native code, by primitive, types and parameters; and public functions in
# native code, by name and types (see `compile/program/operations`, which alone adds and removes them).
NATIVE: dict[object, Callable[..., Any]] = {}


def bind(primitive: Primitive, *inputs: Value, **params: Any) -> Result:
    """Apply a primitive to values: evaluate it, or pass it to the innermost interpreter concerned."""
    if STATE.word:
        return apply(primitive, inputs, params)
    key = (primitive, *[x.type for x in inputs], *params.items()) if params else (primitive, *[x.type for x in inputs])
    native = NATIVE.get(key)
    if native is not None:
        return native(*inputs)
    return PARTS.executor.first(key, primitive, inputs, params)


def apply(primitive: Primitive, inputs: Sequence[Value], params: Mapping[str, Any]) -> Result:
    """`bind` in Python, for calls that native code does not handle."""
    handler: Any
    if STATE.autocast is not None:
        return PARTS.casting(primitive, inputs, params)
    params = plain_params(params) if params else params
    key, handler = _dynamic() if STATE.word else (0, None)
    for x in inputs:
        node = x.node
        if node is not None and STATE.gradients:
            k = 2 * node.level + 1
            if k > key:
                key, handler = k, PARTS.tape
        data = x.content
        if isinstance(data, Payload):
            k = 2 * data.level
            if k > key:
                key, handler = k, data.interpreter
    if key < 2 * PLACEHOLDERS and PARTS.definition is not None and PARTS.definition.takes(params):
        return PARTS.definition.process(primitive, inputs, params)
    if handler is None:
        return PARTS.executor.evaluate(primitive, inputs, params)
    if key & 1:
        return handler(primitive, inputs, params, key >> 1)
    return handler.process(primitive, inputs, params)


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with Python integers instead of NumPy's, which graphs can neither print nor store.

    >>> plain_params({"axes": (np.int64(1),), "name": "x"})
    {'axes': (1,), 'name': 'x'}
    """
    return {k: _plain_param(v) if isinstance(v, tuple | np.integer) else v for k, v in params.items()}


def _plain_param(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(cast("Any", value))
    if type(value) is not tuple:
        return value
    parts = cast("tuple[Any, ...]", value)
    return tuple(map(_plain_param, parts)) if any(isinstance(v, tuple | np.integer) for v in parts) else parts


def _dynamic() -> tuple[int, Any]:
    for interpreter in reversed(STATE.interpreters):
        if interpreter.dynamic:
            return 2 * interpreter.level, interpreter
    return 0, None


def next_level() -> int:
    """The level of a new interpreter."""
    return len(STATE.interpreters) + PLACEHOLDERS + 1


def inside(interpreter: Interpreter, f: Callable[[], T]) -> T:
    """The result of f() with an interpreter on the stack.

    This is a function and not a context manager: an interrupt at the start of `__exit__` would leave the interpreter on
    the stack.
    """
    depth = len(STATE.interpreters)
    try:
        STATE.interpreters.append(interpreter)
        _count(depth + 1)
        return f()
    finally:
        try:
            _leave(depth)
        except BaseException:  # an interrupt, before or in the assignment
            _leave(depth)
            raise


def enter(interpreter: Interpreter) -> None:
    """Put an interpreter on the stack until `leave`, for the contexts that users enter."""
    STATE.interpreters.append(interpreter)
    _count(len(STATE.interpreters))


def leave(interpreter: Interpreter) -> None:
    """Remove an interpreter from the stack; a second call has no effect."""
    STATE.interpreters[:] = [each for each in STATE.interpreters if each is not interpreter]
    _count(len(STATE.interpreters))


def numerics(mode: str) -> StateBlock[str]:
    """A context with a numerics mode; functions compiled in another mode are not used in it."""
    return StateBlock(f'numerics("{mode}")', lambda: STATE.numerics, _set_numerics, mode)


def _set_numerics(mode: str) -> None:
    STATE.numerics = mode
    STATE.settle()
    _count(len(STATE.interpreters))


def autocast(dtype: Any, name: str) -> StateBlock[tuple[Any, bool]]:
    """A context in which the operands of operations are converted for a dtype, or, for None, are not."""
    return StateBlock(name, autocast_state, set_autocast, (dtype, True))


def autocast_state() -> tuple[Any, bool]:
    """The dtype of autocast of this thread, or None, and whether the thread is in a block of it."""
    return STATE.autocast, STATE.mixed


def set_autocast(state: tuple[Any, bool]) -> None:
    """Set what `autocast_state` returns, and inform native code."""
    dtype, STATE.mixed = state
    autocast_to(dtype)
    _count(len(STATE.interpreters))


def source_lines() -> StateBlock[bool]:
    """A context in which nodes of the tape note their source lines."""
    return StateBlock("source_lines()", lambda: STATE.lines, _set_lines, True)


def _set_lines(noted: bool) -> None:
    STATE.lines = noted
    _count(len(STATE.interpreters))


def _leave(depth: int) -> None:
    """Cut the stack of interpreters to a depth; a second call has no effect."""
    del STATE.interpreters[depth:]
    _count(depth)


def _count(depth: int) -> None:
    """Store the number of interpreters of this thread."""
    STATE.word = depth
    with _counting:
        state = depth, STATE.lines or STATE.mixed or not STATE.usual
        _depths[threading.get_ident()] = state
        if not any(state):
            del _depths[threading.get_ident()]
        _update_native()


def _update_native() -> None:
    """Inform native code of all threads."""
    INTERPRETING.value = depths = sum(depth for depth, _ in _depths.values())
    ACTIVE.value = depths + sum(other for _, other in _depths.values())


of_threads_there(_depths, _update_native)
