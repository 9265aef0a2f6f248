"""The kernel of a Python function, for the types of its arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.kernel.affine import Scope
from nacre.kernel.ast import Buffer, For, Kernel, Let, Stmt, Store, statements
from nacre.kernel.dependence import allocated
from nacre.kernel.python.debug import RecordedCheck, Recorder
from nacre.kernel.python.expressions import ExpressionTranslator
from nacre.kernel.python.frame import CallFrame, FunctionSource, KernelWriter, Library
from nacre.kernel.python.guards import Guards
from nacre.kernel.python.independence import require_independent, with_vectors
from nacre.kernel.python.pruning import pruned
from nacre.kernel.python.reached import SizeCheck
from nacre.kernel.python.refusal import Refused, error_of
from nacre.kernel.python.returns import without_returns
from nacre.kernel.python.scalars import Array
from nacre.kernel.python.statements import StatementTranslator
from nacre.kernel.value_bounds import Sizes, ValueBounds
from nacre.kernel.verify import verify

PASSES: Final = 200  # over a function, until the types of its locals are known


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel: the types of inputs and outputs by name, and numbers and other objects."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    others: Mapping[str, Any]


@dataclass(frozen=True)
class Translation:
    """The kernel of a function, and what must hold.

    `checks` are of the outputs that debug mode adds behind the function's own, and `sizes` of symbolic sizes.
    """

    kernel: Kernel
    checks: tuple[RecordedCheck, ...] = ()
    sizes: tuple[SizeCheck, ...] = ()


def translated(
    definition: FunctionSource,
    signature: Signature,
    definitions: Callable[[object], FunctionSource | None],
    library: Library,
    debug: bool = False,
) -> Translation:
    """The kernel of a function.  Elements of outputs that it does not store are not written.

    Raises GraphError, with the file and the line, for a function that is not a kernel.
    """
    name = definition.node.name
    inputs, outputs = (
        tuple(Buffer(n, t.dtype, t.shape) for n, t in types.items()) for types in (signature.inputs, signature.outputs)
    )
    named = {b.name: b for b in (*inputs, *outputs)}
    values = ValueBounds(Sizes.of(tuple(named.values())), frozenset(signature.inputs))
    w = _translated(definition, signature, definitions, library)
    try:
        body = pruned(w.body, w.outputs)
        _require_outermost(body, definition.node)
        require_independent(body, Scope({}, {}), lambda loop, output: _race(loop, output, w))
        recorder = Recorder(name, definition.file, w.origins, {b.name: b for b in outputs}) if debug else None
        body = Guards(named, w.fresh, recorder).block(body, values)
        require_independent(body, Scope({}, {}), lambda loop, output: _wrapping(loop, output, w))
    except Refused as fault:
        raise error_of(fault, name, definition.file) from None
    if recorder is not None:
        found = Kernel(name, inputs, (*outputs, *recorder.buffers), (*recorder.begin(), *body))
    else:
        found = with_vectors(Kernel(name, inputs, outputs, _sunk(body)))
    verify(found)
    return Translation(found, () if recorder is None else tuple(recorder.checks), tuple(dict.fromkeys(w.checks)))


def _translated(
    definition: FunctionSource,
    signature: Signature,
    definitions: Callable[[object], FunctionSource | None],
    library: Library,
) -> KernelWriter:
    """The statements, when the types of all locals are known."""
    arrays = {n: Array(n, t.dtype, t.shape) for n, t in (*signature.inputs.items(), *signature.outputs.items())}
    others = {n: ExpressionTranslator.known(x, definition.node) for n, x in signature.others.items()}
    name = definition.node.name
    w = KernelWriter(definitions, library, frozenset(signature.outputs), CallFrame((), definition, {}), name)
    for _ in range(PASSES):
        frame = CallFrame((), definition, {**arrays, **others})
        w = KernelWriter(definitions, library, w.outputs, frame, name, w.types, w.early)
        w.names |= dict.fromkeys(arrays, 1)
        try:
            s = StatementTranslator(w)
            body = without_returns(definition.node.body)
            s.begin(body, definition.node)
            s.block(body)
        except Refused as fault:
            if not w.changed:
                raise error_of(fault, name, w.frame.definition.file) from None
        if not w.changed:
            break
    return w


def _require_outermost(body: Sequence[Stmt], node: ast.FunctionDef) -> None:
    """Raise Refused unless a parallel loop is the only statement with an effect."""
    loops = [s for s in body if isinstance(s, For) and s.parallel]
    last = body[-1] if body else None
    behind = [s for s in body if _has_effect(s)]
    if loops and (len(behind) > 1 or loops[0] is not last):
        raise Refused(
            node, "a kernel with a parallel loop must consist of it and of locals before it",
            "write a kernel for each parallel loop", f"{len(behind)} loops or stores",
        )  # fmt: skip


def _has_effect(s: Stmt) -> bool:
    """Whether a statement stores to an output."""
    own = allocated((s,))
    return (isinstance(s, For) and s.parallel) or any(
        isinstance(t, Store) and t.index and t.buffer not in own for t in statements((s,))
    )


def _race(loop: For, output: str, w: KernelWriter) -> Refused:
    return Refused(
        _origin(loop, w),
        f"rounds of a parallel loop must store to different elements of {output}, and read only their own",
        "index it by the loop's own counter, or write range",
    )


def _wrapping(loop: For, output: str, w: KernelWriter) -> Refused:
    return Refused(
        _origin(loop, w),
        f"indices of {output} in a parallel loop must provably be inside of it",
        "begin and end the range so that they are, write n - 1 - i in place of -1 - i, or write range for this loop",
    )


def _origin(loop: For, w: KernelWriter) -> ast.AST:
    """The loop in Python."""
    return next((n for s, n in w.origins.values() if isinstance(s, For) and s.index == loop.index), ast.Pass())


def _sunk(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A parallel loop with the statements before it in its body, unless they are only names."""
    if not body or not isinstance(body[-1], For) or not body[-1].parallel:
        return body
    loop, before = body[-1], body[:-1]
    if all(isinstance(s, Let) for s in before):
        return body
    return (replace(loop, body=(*before, *loop.body)),)
