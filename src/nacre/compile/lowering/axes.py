"""Axes of a kernel's domain: which can be merged, and where their indices are used."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dims import Size
from nacre.kernel.ast import Accumulate, Apply, Expr, For, Index, Kernel, Let, Load, Stmt, Store, children


def merged_stride(group: Sequence[int], domain: Sequence[Size], strides: Sequence[Size]) -> Size:
    """The stride of a merged axis: that of its last axis which is longer than 1."""
    for k in reversed(group):
        if domain[k] != 1:
            return strides[k]
    return strides[group[-1]] if group else 0


def adjacent(group: Sequence[int], k: int, domain: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Whether axis k follows a group of axes without a gap."""
    if domain[k] == 1 or all(domain[j] == 1 for j in group):
        return True
    return merged_stride(group, domain, strides) == strides[k] * domain[k]


def merged_axes(
    domain: Sequence[Size], reduced: tuple[int, ...], strides: Sequence[Sequence[Size]], apart: bool
) -> list[tuple[int, ...]]:
    """Groups of axes that act as one: all or none are reduced, and they are adjacent in buffers of these strides."""
    groups: list[list[int]] = []
    for k in range(len(domain)):
        if groups and (k in reduced) == (groups[-1][0] in reduced) and not apart:
            j = groups[-1]
            if all(adjacent(j, k, domain, s) for s in strides):
                j.append(k)
                continue
        groups.append([k])
    return [tuple(g) for g in groups]


def with_indices(s: Stmt, names: dict[str, Expr]) -> Stmt:
    """A statement with loop indices replaced by expressions."""

    def expr(e: Expr) -> Expr:
        """The expression with its indices replaced."""
        match e:
            case Index() if e.name in names:
                return names[e.name]
            case Load():
                return Load(e.buffer, tuple(map(expr, e.index)), e.dtype)
            case Apply():
                return Apply(e.op, tuple(map(expr, e.args)), e.dtype)
            case _:
                return e

    match s:
        case Let():
            return Let(s.name, expr(s.value))
        case Store():
            return Store(s.buffer, tuple(map(expr, s.index)), expr(s.value))
        case Accumulate():
            return Accumulate(s.op, s.accumulators, tuple(map(expr, s.values)))
        case For():
            return For(s.index, s.extent, tuple(with_indices(t, names) for t in s.body), s.parallel, s.vector)
        case _:
            return s


def mentions_index(e: Expr) -> bool:
    """Whether an expression depends on a loop index."""
    return isinstance(e, Index) or any(map(mentions_index, children(e)))


def uses_indices(kernel: Kernel, names: set[str]) -> bool:
    """Whether a kernel uses the indices of the given names."""

    def mentions(e: Expr) -> bool:
        """Whether an expression mentions one of the indices."""
        return (isinstance(e, Index) and e.name in names) or any(map(mentions, children(e)))

    def walk(body: tuple[Stmt, ...]) -> bool:
        """Whether a statement of the body mentions one of the indices."""
        for s in body:
            match s:
                case For():
                    if walk(s.body):
                        return True
                case Let():
                    if mentions(s.value):
                        return True
                case Store():
                    if mentions(s.value) or any(map(mentions, s.index)):
                        return True
                case Accumulate():
                    if any(map(mentions, s.values)):
                        return True
                case _:
                    pass
        return False

    return walk(kernel.body)
