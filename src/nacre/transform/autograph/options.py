"""What a loop's body says about its loop, for the program that the loop becomes."""

from __future__ import annotations

from nacre.base.arguments import whole_number
from nacre.base.errors import ArgumentError
from nacre.transform.autograph.parts import RECORDING

__all__ = ["set_loop_options"]


def set_loop_options(*, max_iterations: int) -> None:
    """Says in the body of a `while`, or of a `for` over a range with traced bounds, how many iterations it has at most.

    `nc.jit` makes such a loop a loop of the program.  With a limit it has a derivative in reverse mode, and it may
    append to lists (see `nc.stack` with `size`).  A program whose loop has not ended by then raises ArgumentError.
    Elsewhere the call does nothing.

    Raises ArgumentError unless the number is at least 1.

    >>> import nacre as nc
    >>> @nc.jit
    ... def halved(x):
    ...     steps = []
    ...     while x > 1:
    ...         nc.set_loop_options(max_iterations=5)
    ...         x = x / 2
    ...         steps.append(x)
    ...     return nc.stack(steps, size=4)
    >>> halved(nc.tensor(6.0))
    Tensor([3.  , 1.5 , 0.75, 0.  ], f32[4])
    """
    most = whole_number(max_iterations, "set_loop_options", "max_iterations")
    if most < 1:
        raise ArgumentError(f"set_loop_options: max_iterations must be at least 1; got {max_iterations}")
    if RECORDING.bounds:
        RECORDING.bounds[-1] = most
