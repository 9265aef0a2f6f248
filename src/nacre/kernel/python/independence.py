"""Parallel loops of kernels from Python: whether their iterations are independent, and which loops are vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nacre.kernel.affine import Scope, any_of
from nacre.kernel.ast import Accumulate, Buffer, Expr, For, If, Kernel, Let, Load, Local, Stmt, Store, While, statements
from nacre.kernel.dependence import loads, memory_obstacle, separate, stride, within, written


def shared_output(loop: For, scope: Scope) -> str | None:
    """An output of which iterations of a loop provably may store the same element; None if there is none.

    Stores at positions that are read from arrays are the author's to know, if the loop does not read the output.
    """
    for name in written(loop.body):
        if separate(loop, name, scope):
            continue
        lets = within(loop, scope).lets
        places = [s.index for s in statements(loop.body) if isinstance(s, Store) and s.buffer == name]
        reads = any(e.buffer == name for e in loads(loop.body))
        if reads or not all(any(_is_loaded(e, lets) for e in index) for index in places):
            return name
    return None


def _is_loaded(e: Expr, lets: Mapping[str, Expr]) -> bool:
    """Whether an expression has an element of an array in it."""
    return any_of(e, lambda part: isinstance(part, Load)) or any_of(
        e, lambda part: isinstance(part, Local) and part.name in lets and _is_loaded(lets[part.name], lets)
    )


def require_independent(body: Sequence[Stmt], scope: Scope, refuse: Callable[[For, str], Exception]) -> None:
    """Raise an error for the first parallel loop whose iterations are not independent."""
    for s in body:
        match s:
            case For():
                inside = scope.inside(s.index, s.extent)
                name = shared_output(s, inside) if s.parallel else None
                if name is not None:
                    raise refuse(s, name)
                require_independent(s.body, inside, refuse)
            case If():
                require_independent((*s.body, *s.orelse), scope, refuse)
            case While():
                require_independent(s.body, scope, refuse)
            case Let():
                scope = scope.behind(s.name, s.value)
            case _:
                pass


def with_vectors(kernel: Kernel) -> Kernel:
    """The kernel with a mark for each loop whose iterations may be lanes, and whose accesses are then contiguous."""
    buffers = {b.name: b for b in kernel.buffers}
    return replace(kernel, body=_marked(kernel.body, Scope({}, {}), buffers))


def _marked(body: Sequence[Stmt], scope: Scope, buffers: Mapping[str, Buffer]) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for s in body:
        match s:
            case For():
                inside = scope.inside(s.index, s.extent)
                if _is_vector(s, inside, buffers):
                    found.append(replace(s, vector=True))
                else:
                    found.append(replace(s, body=_marked(s.body, inside, buffers)))
            case If():
                found.append(If(s.condition, *(_marked(b, scope, buffers) for b in (s.body, s.orelse))))
            case While():
                found.append(While(s.condition, _marked(s.body, scope, buffers)))
            case Let():
                scope = scope.behind(s.name, s.value)
                found.append(s)
            case _:
                found.append(s)
    return tuple(found)


def _is_vector(s: For, scope: Scope, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a loop's iterations are lanes with contiguous accesses, in which no loop has its own length."""
    inner = list(statements(s.body))
    if any(isinstance(t, While) for t in inner) or (memory_obstacle(s, scope) is not None):
        return False
    if any(isinstance(t, Accumulate) for t in inner) and any(isinstance(t, For) for t in inner):
        return False
    known = within(s, scope)
    places = [(e.buffer, e.index) for e in loads(s.body)]
    places += [(t.buffer, t.index) for t in inner if isinstance(t, Store)]
    apart = [stride(buffers[name], index, s.index, known) for name, index in places if name in buffers and index]
    return bool(apart) and all(isinstance(d, int) and abs(d) <= 1 for d in apart)
