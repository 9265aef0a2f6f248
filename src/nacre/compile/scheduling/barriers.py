"""The order of launches: independent launches are grouped, so that fewer barriers separate them.

Threads wait for each other at every barrier.  A launch therefore moves up to the epoch in which its inputs are ready,
but only past a limited number of others, because its result occupies memory until it is read.  The original order
stays if the new one saves no barrier or takes more memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.base.dims import LIMIT
from nacre.runtime.plan import Launch, Plan, arena

FURTHEST = 4  # epochs that a launch moves up
UNBOUNDED = 64  # the value assumed for a size without a maximum where memory is compared


def barrier_order(steps: Sequence[Launch]) -> list[int]:
    """The launches' numbers in the new order, for a program without loops and branches."""
    level: list[int] = []
    latest = first = 0
    wrote: dict[int, int] = {}  # value -> the last level that writes it
    read: dict[int, int] = {}  # value -> the last level that reads it
    for step in steps:
        least = max(first, latest - FURTHEST)
        for v in step.reads:
            least = max(least, wrote.get(v, -1) + 1)
        for v in step.writes:
            least = max(least, wrote.get(v, -1) + 1, read.get(v, -1) + 1)
        for v, _ in step.over:  # its memory may be reused for the result when all others have read it
            least = max(least, read.get(v, -1) + 1)
        if step.may_stop:  # after all launches before it, and before all after it
            least = latest + 1
            first = least + 1
        for v in step.reads:
            read[v] = max(read.get(v, -1), least)
        for v in step.writes:
            wrote[v] = least
        level.append(least)
        latest = max(latest, least)
    return sorted(range(len(steps)), key=lambda k: (level[k], k))


def better(new: Plan, old: Plan) -> bool:
    """Whether a plan has fewer barriers than another one, and takes no more memory."""
    if not new.steps or new.epochs[-1] >= old.epochs[-1] or len(new.donations) < len(old.donations):
        return False
    sizes = _sizes(old)
    return arena(new, sizes)[1] <= arena(old, sizes)[1]


def _sizes(plan: Plan) -> Mapping[str, int]:
    """A value for each symbol of a plan: its maximum, or an assumed size where it has none."""
    found: dict[str, int] = {}
    for storage in plan.values:
        size = storage.nbytes
        if not isinstance(size, int):
            found.update({s.name: max(s.low, UNBOUNDED) if s.high >= LIMIT else s.high for s in size.symbols()})
    return found
