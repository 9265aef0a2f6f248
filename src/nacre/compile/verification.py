"""Verification between passes: the checks of `NACRE_VERIFY=1` after each of them, and the report of a fault."""

from __future__ import annotations

from functools import lru_cache

from nacre.base.errors import CompileError, GraphError
from nacre.base.identity_cache import cached_by_identity
from nacre.compile.buffers.verify import verify_plan
from nacre.ir.graph import Graph
from nacre.kernel.ast import Kernel
from nacre.kernel.verify import verify as verify_kernel
from nacre.runtime.plan import Plan


def graph_behind(name: str, graph: Graph) -> None:
    """Check the graph that a pass returned.  Raises CompileError with the pass and the lines around the fault."""
    try:
        graph.verify()
    except GraphError as fault:
        raise _broken(name, "graph", fault) from None


def kernel_behind(name: str, kernel: Kernel) -> None:
    """Check a kernel that a pass returned.  Raises CompileError with the pass and the lines around the fault."""
    try:
        _verified(kernel)
    except GraphError as fault:
        raise _broken(name, "kernel", fault) from None


def plan_behind(name: str, plan: Plan) -> None:
    """Check the plan that a pass returned.  Raises CompileError with the pass and the lines around the fault."""
    try:
        verify_plan(plan)
    except CompileError as fault:
        raise _broken(name, "plan", fault) from None


@cached_by_identity
@lru_cache(maxsize=4096)
def _verified(kernel: Kernel) -> bool:
    """Whether a kernel is valid; equal kernels are checked once."""
    verify_kernel(kernel)
    return True


def _broken(name: str, what: str, fault: Exception) -> CompileError:
    return CompileError(f"pass {name}: the {what} behind it must be valid; {fault}")
