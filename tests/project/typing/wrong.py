"""Faults that a checker must report: each line here has one, and a comment for which there is no fault is an error.

Nothing here runs.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import nacre as nc
from nacre import nn, optim


@nc.jit
def compiled(a: nc.Tensor, scale: float = 1.0) -> nc.Tensor:
    return a * scale


class Steps:
    """Has a jitted method."""

    @nc.jit
    def add(self, a: nc.Tensor) -> nc.Tensor:
        return a


def wrong(x: nc.Tensor) -> None:
    nc.exp("text")  # pyright: ignore[reportArgumentType]
    nc.zeros("3")  # pyright: ignore[reportArgumentType]
    nc.sum(x, axis="0")  # pyright: ignore[reportArgumentType]
    nc.sum(x, axes=0)  # pyright: ignore[reportCallIssue]
    nc.linalg.solve(x)  # pyright: ignore[reportCallIssue]
    nc.fft.fft("signal")  # pyright: ignore[reportArgumentType]
    print(x + "text")  # pyright: ignore[reportOperatorIssue, reportUnknownArgumentType]
    print(x.transposed)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    nc.linalg.svd(x).u.sum()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    nc.expp(x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    nc.fft.fftt(x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    nn.Linaer(2, 3)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    nn.functional.rellu(x)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    optim.Adamm([])  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    compiled("text")  # pyright: ignore[reportArgumentType]
    compiled(x, size=2)  # pyright: ignore[reportCallIssue]
    Steps().add("text")  # pyright: ignore[reportArgumentType]
    nc.jit(compiled, donates=("a",))  # pyright: ignore[reportCallIssue]
    nc.grad(compiled)("text")  # pyright: ignore[reportArgumentType]
    nc.vmap(compiled)(x, scales=1.0)  # pyright: ignore[reportCallIssue]
    nn.Linear("2", 3)  # pyright: ignore[reportArgumentType]
    nn.Linear(2, 3)(x, x)  # pyright: ignore[reportCallIssue]
