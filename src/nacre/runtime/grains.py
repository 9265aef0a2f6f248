"""Grains: the rounds of a launch's extent that a thread takes at a time."""

from __future__ import annotations

SHARE_COST = 10_000  # steps with less work are not divided
CHUNK_COST = 5_000  # the least work worth taking a chunk for


def grains(extent: int, cost: int, together: int, threads: int) -> tuple[int, ...]:
    """Candidate rounds per chunk, the usual number first, the whole extent last."""
    usual = _grain(extent, cost, together, threads)
    if threads == 1 or extent <= together:
        return (usual,)
    pieces = (_multiple(max(1, -(-extent // (n * threads))), together) for n in (1, 2, 4, 8, 16))
    return tuple(dict.fromkeys((usual, *pieces, extent)))


def _grain(extent: int, cost: int, together: int, threads: int) -> int:
    """Rounds per chunk: few chunks for little work, otherwise four for each thread or a few more.

    With few rounds, four chunks a thread may leave a thread idle for a chunk.  Of up to eight, the number with the
    least idle time is chosen.
    """
    if extent * cost < SHARE_COST:
        return max(1, extent)
    least = max(CHUNK_COST // cost, 1)
    grains = [_multiple(max(-(-extent // (n * threads)), least), together) for n in range(4, 9)]
    return min(grains, key=lambda grain: -(-extent // (grain * threads)) * grain)


def _multiple(n: int, unit: int) -> int:
    """The least multiple of a unit that is at least n."""
    return -(-n // unit) * unit
