"""The printer of plans: launches, barriers, loops and branches, and where each value is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nacre.runtime.flow import Loop
from nacre.runtime.layouts import RowKind
from nacre.runtime.plan import Launch, Plan, arena


def show_plan(plan: Plan, sizes: Mapping[str, int]) -> str:
    """The text of a plan for given sizes."""
    return "\n".join(text for text, _ in plan_lines(plan, sizes))


def plan_lines(plan: Plan, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The lines of a plan, each with the number of its row; the last line is after all rows."""
    offsets, total = arena(plan, sizes)
    names = value_names(plan, offsets)
    label_width = max((len(s.label) for s in plan.steps), default=0)
    ends: list[int] = []  # rows at which loops and sides of branches end
    rows = plan.rows
    for k, row in enumerate(rows):
        ends = [e for e in ends if e > k]
        indent = "  " * len(ends)
        if row.sync:
            yield f"{indent}   ---- barrier", k
        match row.kind:
            case RowKind.LAUNCH:
                step = plan.steps[row.step]
                what = f"{_written(step, names)} <- {_read(step, names)}"
                yield f"{indent}{row.step:2} {step.label:{label_width}}  {what}", k
            case RowKind.ENTER:
                assert row.loop is not None
                yield f"{indent}   {_loop(row.loop, names)}", k
                ends.append(row.past)
            case RowKind.TURN:
                yield f"{indent}   turn", k
            case RowKind.BRANCH:
                yield f"{indent}   where {names[row.cell]}:", k
                if rows[row.target - 1].kind is not RowKind.TURN:
                    ends.append(row.target)
            case RowKind.JUMP:
                yield f"{'  ' * max(0, len(ends) - 1)}   else:", k
                ends.append(row.target)
            case RowKind.LEAVE:
                yield f"{indent}   leave", k
    yield f"arena: {total} bytes", len(rows)


def _loop(loop: Loop, names: dict[int, str]) -> str:
    """A loop's head: its number of iterations, and the values that are exchanged after each."""
    often = f"{loop.trips} times" if loop.trips is not None else "as long as"
    if loop.bound is not None:
        often += f", at most {loop.bound} times"
    pairs = ", ".join(f"{names[a]} and {names[b]}" for a, b in loop.swaps)
    return f"loop {loop.number}, {often}" + (f", swapping {pairs}" if pairs else "") + ":"


def value_names(plan: Plan, offsets: Mapping[int, int]) -> dict[int, str]:
    """For each value its kind, number, bytes, and the place it takes: its own in the arena, or another value's."""
    counts: dict[str, int] = {}
    short: dict[int, str] = {}
    for v, storage in enumerate(plan.values):
        counts[storage.kind] = counts.get(storage.kind, -1) + 1
        short[v] = f"{storage.kind}{counts[storage.kind]}"
    over = {plan.inputs + output: given for output, given in plan.donations}
    over |= {v: s.reuses for v, s in enumerate(plan.values) if s.reuses >= 0}
    names: dict[int, str] = {}
    for v, storage in enumerate(plan.values):
        place = f" over {short[over[v]]}" if v in over else f" at {offsets[v]}" if v in offsets else ""
        if storage.kind == "part":
            moved = f" + {storage.stride} each round of loop {storage.loop}" if storage.loop >= 0 else ""
            place = f" of {short[storage.of]} at {storage.offset}{moved}"
        names[v] = f"{short[v]} ({storage.nbytes} bytes{place})"
    return names


def _read(step: Launch, names: dict[int, str]) -> str:
    return ", ".join(names[v] for v in step.reads)


def _written(step: Launch, names: dict[int, str]) -> str:
    return ", ".join(names[v] for v in step.writes)
