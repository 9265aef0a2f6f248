"""`register_kernel`: another kernel for a primitive, for some instruction sets, types and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.extending.checks import require_function, require_text, require_version
from nacre.api.extending.nest import kernel_of_text
from nacre.api.extending.parameters import plain_params
from nacre.api.extending.running import require_outside, running
from nacre.base.arguments import shown
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.base.hints import closest
from nacre.base.types import TensorType
from nacre.compile import pipeline as pipeline  # the package's kernels are registered first
from nacre.compile.lowering import kernel_registry
from nacre.compile.lowering.kernel_registry import RegisteredKernel
from nacre.ir.graph import Equation
from nacre.ir.primitive import Nest, Primitive, known_primitive, registered
from nacre.kernel.ast import Kernel
from nacre.native.isa import Isa

__all__ = ["register_kernel"]


def register_kernel(
    primitive: str | Callable[..., Any],
    target: str,
    match: Callable[..., bool],
    build: Callable[..., str],
    *,
    version: str = "",
) -> RegisteredKernel:
    """Give a primitive another kernel.

    `primitive` is a function that `nacre.primitive` returned, or the name of a primitive as `nacre explain` prints it.
    `target` is the name of an instruction set, or a pattern of names with `*` and `?`.  The kernel computes an
    operation if `match(*types, **params)` is true for the types of its operands.  Their sizes may be symbolic; a match
    that depends on such a size is none.

    `build(types, results, **params)` gets the types of the operands and of the results, and returns a kernel in kernel
    IR, whose inputs are the operands, and whose outputs are the results.  It must compute the same bits as the kernel
    that it replaces, on each machine, or programs have different results on different machines.  Each index must
    provably stay inside of its buffer.

    Of the kernels that match, the one with the most specific target is used, and then the latest.  Everything that was
    compiled before is compiled again at its next call.  Programs are stored on disk only if the kernel has a `version`;
    give a new one whenever the kernel changes.  `remove()` of the result removes the kernel.

    >>> def build(types, results):
    ...     return f'''kernel rows(x: {types[0]}) -> (y: {results[0]}):
    ...       parallel for i in {types[0].shape[0]}:
    ...         alloc sum: f32[]
    ...         for k in {types[0].shape[1]}:
    ...           accumulate sum sum <- x[i, k]
    ...         y[i] = sum[]'''
    >>> rows = nc.primitive(
    ...     "rows", result=lambda x: (x.shape[:1], x.dtype), nest=lambda types, y: build(types, (y,))
    ... )
    >>> kernel = nc.register_kernel(rows, "*", lambda x: x.dtype is nc.float32, build)
    >>> rows(nc.ones((2, 3)))
    Tensor([3., 3.], f32[2])
    >>> kernel.remove()
    """
    require_outside("register_kernel")
    found = _primitive(primitive)
    require_function("register_kernel", "match", match)
    require_function("register_kernel", "build", build)
    require_text("register_kernel", "target", target, "write '*' for all")
    require_version("register_kernel", version)
    return kernel_registry.register_kernel(
        found, target, _match(found.name, match), Nest(_nest(found.name, build)), version=version
    )


def _match(name: str, match: Callable[..., bool]) -> Callable[[Isa, Equation], bool]:
    def matches(isa: Isa, e: Equation) -> bool:
        """Whether the kernel computes an equation; not if that depends on a symbolic size."""
        types = [x.type for x in e.inputs]
        with running(f"match of a kernel of {name}"):
            try:
                return bool(match(*types, **plain_params(e.params)))
            except ShapeError as fault:
                if all(t.static for t in types) or not str(fault).startswith("dimension: "):
                    raise
                return False

    return matches


def _nest(name: str, build: Callable[..., str]) -> Callable[..., Kernel]:
    def written(types: tuple[TensorType, ...], results: tuple[TensorType, ...], **params: Any) -> Kernel:
        """The kernel of the text."""
        with running(f"build of a kernel of {name}"):
            return kernel_of_text(name, build(types, results, **plain_params(params)), types, results)

    return written


def _primitive(given: object) -> Primitive:
    found = known_primitive(given) if isinstance(given, str) else getattr(given, "primitive", None)
    if isinstance(found, Primitive):
        return found
    if isinstance(given, str):
        near = closest(given, registered()) or "; `nacre explain --show graph` prints the names in a graph"
        raise ArgumentError(f"register_kernel: primitive must be the name of a primitive; got {given!r}{near}")
    raise KindError(
        f"register_kernel: primitive must be a name or a function from nacre.primitive; got {shown(given)}; "
        "pass, for example, 'dot'"
    )
