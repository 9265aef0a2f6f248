"""Examples for the errors of converted code: what users write, and what to write instead."""

from __future__ import annotations

from typing import Final, NamedTuple


class RewriteExample(NamedTuple):
    """Code that cannot become part of a program, and code that can."""

    wrong: str
    right: str


def _branch(before: str, yes: str, no: str, end: str) -> str:
    """A function with a branch; its else is left out if it is empty."""
    lines = ["@nc.jit", "def f(x):", *([f"    {before}"] if before else []), "    if x.sum() > 0:", f"        {yes}"]
    return "\n".join([*lines, *(["    else:", f"        {no}"] if no else []), f"    return {end}"])


def _loop(before: str, body: str, end: str) -> str:
    """A function with a loop, whose body has several lines."""
    inner = [f"        {line}" for line in body.splitlines()]
    lines = ["@nc.jit", "def f(x):", *([f"    {before}"] if before else []), "    while x.sum() > 1:", *inner]
    return "\n".join([*lines, f"    return {end}"])


# ---- values of two types in branches

BRANCH_NONE: Final = RewriteExample(
    _branch("extra = None", "extra = x", "", "x if extra is None else x + extra"),
    _branch("extra = nc.zeros_like(x)", "extra = x", "", "x + extra"),
)
BRANCH_SHAPE: Final = RewriteExample(
    _branch("", "y = x", "y = 0.0", "y"), _branch("", "y = x", "y = nc.zeros_like(x)", "y")
)
BRANCH_DTYPE: Final = RewriteExample(
    _branch("", "y = x", "y = x.astype(nc.int32)", "y"),
    _branch("", "y = x", "y = x.astype(nc.int32).astype(x.dtype)", "y"),
)
BRANCH_STRUCTURE: Final = RewriteExample(
    _branch("", "y = x, x + 1", "y = x", "y"), _branch("", "y = x, x + 1", "y = x, nc.zeros_like(x)", "y")
)
BRANCH_OBJECT: Final = RewriteExample(
    _branch("", "name = 'low'", "name = 'high'", "tables[name]"),
    _branch("", "table = tables['low']", "table = tables['high']", "table"),
)
BRANCH_BOOL: Final = RewriteExample(_branch("", "k = True", "k = 3", "x * k"), _branch("", "k = 1", "k = 3", "x * k"))

# ---- values of two types in a loop

LOOP_NONE: Final = RewriteExample(
    _loop("best = None", "x = x / 2\nbest = x", "best"), _loop("best = nc.zeros_like(x)", "x = x / 2\nbest = x", "best")
)
LOOP_SHAPE: Final = RewriteExample(
    _loop("steps = x[None]", "x = x / 2\nsteps = nc.concat([steps, x[None]])", "steps"),
    _loop(
        "steps = []",
        "nc.set_loop_options(max_iterations=100)\nx = x / 2\nsteps.append(x)",
        "nc.stack(steps, size=100)      # zeros behind the items",
    ),
)
LOOP_DTYPE: Final = RewriteExample(
    _loop("n = nc.asarray(1)", "x, n = x / 2, n * 1.5", "n"),
    _loop("n = nc.asarray(1.0)", "x, n = x / 2, n * 1.5", "n"),
)
LOOP_STRUCTURE: Final = RewriteExample(
    _loop("steps = ()", "x = x / 2\nsteps = (*steps, x)", "nc.stack(steps)"), LOOP_SHAPE.right
)
LOOP_OBJECT: Final = RewriteExample(
    _loop("state = 'begun'", "x = x / 2\nstate = 'halved'", "x, state"),
    _loop("halved = False", "x = x / 2\nhalved = True", "x, halved"),
)
LOOP_BOOL: Final = RewriteExample(
    _loop("n = False", "x = x / 2\nn = n + 1", "x * n"), _loop("n = 0", "x = x / 2\nn = n + 1", "x * n")
)

# ---- variables without a value

BRANCH_UNBOUND: Final = RewriteExample(
    _branch("", "y = x * 2", "", "y"), _branch("y = nc.zeros_like(x)", "y = x * 2", "", "y")
)
LOOP_UNBOUND: Final = RewriteExample(
    _loop("", "x = x / 2\ny = x + 1", "y"), _loop("y = nc.zeros_like(x)", "x = x / 2\ny = x + 1", "y")
)

# ---- side effects

ITEM_CHANGED: Final = RewriteExample(
    "@nc.jit\ndef f(x, seen):\n    if x.sum() > 0:\n        seen['sum'] = x.sum()\n    return x",
    "@nc.jit\ndef f(x, seen):\n    if x.sum() > 0:\n        total = x.sum()\n    else:\n        total = seen['sum']\n"
    "    return x, {**seen, 'sum': total}",
)
ATTRIBUTE_CHANGED: Final = RewriteExample(
    "@nc.jit\ndef f(x, state):\n    if x.sum() > 0:\n        state.count += 1\n    return x",
    "@nc.jit\ndef f(x, state):\n    count = nc.asarray(state.count)\n    if x.sum() > 0:\n        count = count + 1\n"
    "    return x, count      # assign it where f is called",
)
VARIABLE_ASSIGNED: Final = RewriteExample(
    "count = 0\n@nc.jit\ndef f(x):\n    global count\n    if x.sum() > 0:\n        count += 1\n    return x",
    "@nc.jit\ndef f(x, count):\n    if x.sum() > 0:\n        count = count + 1\n    return x, count\n"
    "\ny, count = f(x, nc.asarray(count))",
)
LIST_CHANGED: Final = RewriteExample(
    "seen = []\n@nc.jit\ndef f(x):\n    while x.sum() > 1:\n        x = x / 2\n        seen.append(x)\n    return x",
    _loop(
        "seen = []",
        "nc.set_loop_options(max_iterations=100)\nx = x / 2\nseen.append(x)      # a list of this function",
        "x, nc.stack(seen, size=100), len(seen)",
    ),
)
ARRAY_CHANGED: Final = RewriteExample(
    _branch("table = np.zeros(3)", "table[0] = 1.0", "", "x * nc.asarray(table)"),
    _branch("table = nc.zeros(3)", "table[0] = 1.0      # elements of tensors may be assigned", "", "x * table"),
)
ITERATOR_ADVANCED: Final = RewriteExample(
    "@nc.jit\ndef f(x, scales):\n    if x.sum() > 0:\n        x = x * next(scales)\n    return x",
    "@nc.jit\ndef f(x, scales):\n    scale = next(scales)\n    if x.sum() > 0:\n        x = x * scale\n    return x",
)
