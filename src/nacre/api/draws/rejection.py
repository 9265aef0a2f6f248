"""Rejection: proposals of each element until one is accepted.

The bits of a proposal depend on the key, the round and the place alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.api.draws.standard import keys_of
from nacre.api.operands import filled
from nacre.api.primitives import control, pointwise, reduce
from nacre.interpret.stage import derived

Propose = Callable[..., tuple[Any, Any]]  # (key, parameters) → the numbers, and whether each is accepted


def accepted(propose: Propose, settled: Any, parameters: Sequence[Any], key: Any) -> Any:
    """The first number of each element that is accepted; 1 where the element is settled, which has no proposals."""
    axes = tuple(range(len(settled.type.shape)))

    def missing(key: Any, done: Any, found: Any, *parameters: Any) -> list[Any]:
        """Whether an element has no number yet."""
        return [pointwise.not_(reduce.all_(done, axes))]

    def round_(key: Any, done: Any, found: Any, *parameters: Any) -> list[Any]:
        """A proposal of each element."""
        following, own = keys_of(key, 2)
        number, taken = propose(own, *parameters)
        return [following, pointwise.or_(done, taken), pointwise.select(done, found, number), *parameters]

    start = (key, settled, filled(parameters[0], 1.0), *parameters)
    types = [x.type for x in start]
    return control.while_loop(derived(missing, types, "missing"), derived(round_, types, "round"), *start)[2]
