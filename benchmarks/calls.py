"""The time of common calls beside NumPy's and PyTorch's, at small, middle and large sizes, eager and compiled.

    python3 run.py bench calls [--peer PYTHON] [--only NAME ...] [--sizes N ...] [--rounds N] [--json FILE]
    python3 run.py bench calls --table FILE ... [--page PAGE]

A cell has Nacre's least time in microseconds, and its ratio to the faster of the two others: of the least times, and,
in brackets, of the medians.  Below 1 Nacre is faster.  NumPy and Nacre take turns in one process.  PyTorch, in the
Python that is given, runs eagerly in a process of its own, in the same turns.  Results are compared with NumPy's.

`--json` adds the times to those in the file, so that calls may be measured one after another.  `--table` writes the
ratios of the least times into a page.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

SIZES = (10, 10**4, 10**7)
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
WARM = 50  # calls before the first that is measured, unless they are long
LIBRARIES = ("numpy", "nacre", "torch")
Times = dict[str, list[float]]  # seconds by contender


class Case(NamedTuple):
    """A call in each library: an expression of the module `m` and of operands."""

    numpy: str
    nacre: str
    torch: str

    def function(self, library: str) -> tuple[Callable[..., Any], list[str]]:
        """The call in a library as a function, and the names of its operands."""
        text = getattr(self, library)
        used = [name for name in OPERANDS if name in compile(text, "call", "eval").co_names]
        return eval(f"lambda {', '.join(used)}: {text}", {"m": import_module(library)}), used


def alike(text: str) -> Case:
    """A call that is written alike in all three."""
    return Case(text, text, text)


def named(names: str, operands: str) -> dict[str, Case]:
    """Calls of functions of one name."""
    return {name: alike(f"m.{name}({operands})") for name in names.split()}


OPERANDS: dict[str, Callable[[int, Any], Any]] = {  # from the size and a random generator
    "x": lambda n, rng: rng.standard_normal(n).astype(np.float32),
    "y": lambda n, rng: rng.standard_normal(n).astype(np.float32),
    "p": lambda n, rng: (rng.random(n) * 0.9 + 0.05).astype(np.float32),
    "k": lambda n, rng: rng.integers(1, 100, n),
    "i": lambda n, rng: rng.integers(0, n, n),
    "b": lambda n, rng: rng.random(n) < 0.5,
    "s": lambda n, rng: rng.standard_normal((max(2, int(n**0.5)),) * 2).astype(np.float32),
    "r": lambda n, rng: rng.standard_normal(max(2, int(n**0.5))).astype(np.float32),
    "w": lambda n, rng: rng.standard_normal((min(512, max(2, int(n**0.5))),) * 2).astype(np.float32),
    "n": lambda n, rng: n,
}
CASES: dict[str, Case] = {
    # pointwise
    **{f"x {op} y": alike(f"x {op} y") for op in ("+", "-", "*", "/", "<", "==")},
    **{f"x {op} 2": alike(f"x {op} 2") for op in ("+", "*", "**")},
    "-x": alike("-x"),
    "k + k": alike("k + k"),
    "k // 3": alike("k // 3"),
    "b & b": alike("b & ~b"),
    "s + r": alike("s + r"),
    **named("abs sqrt exp log1p sin cos tanh floor sign square isnan", "x"),
    "log": alike("m.log(p)"),
    "maximum": alike("m.maximum(x, y)"),
    "atan2": alike("m.arctan2(x, y)"),
    "power": Case("m.power(p, y)", "m.pow(p, y)", "m.pow(p, y)"),
    "hypot": alike("m.hypot(x, y)"),
    "remainder": alike("m.remainder(x, y)"),
    "where": alike("m.where(b, x, y)"),
    "clip": alike("m.clip(x, -1, 1)"),
    "logical_and": alike("m.logical_and(b, b)"),
    "astype": Case("x.astype(m.float64)", "x.astype(m.float64)", "x.to(m.float64)"),
    "sigmoid": Case("1 / (1 + m.exp(-x))", "m.sigmoid(x)", "m.sigmoid(x)"),
    "softmax": Case(
        "(lambda e: e / e.sum(axis=-1, keepdims=True))(m.exp(s - s.max(axis=-1, keepdims=True)))",
        "m.softmax(s, -1)",
        "m.softmax(s, -1)",
    ),
    # reductions
    **named("sum mean std var", "x"),
    "prod": alike("m.prod(p)"),
    "max": alike("m.max(x)"),
    "argmax": alike("m.argmax(x)"),
    "any": alike("m.any(b)"),
    "all": alike("m.all(b)"),
    "count_nonzero": alike("m.count_nonzero(b)"),
    "sum of rows": alike("s.sum(axis=1)"),
    "sum of columns": alike("s.sum(axis=0)"),
    "max of rows": Case("s.max(axis=1)", "s.max(axis=1)", "m.amax(s, 1)"),
    "mean of columns": alike("s.mean(axis=0)"),
    "cumsum": Case("m.cumsum(x)", "m.cumsum(x)", "m.cumsum(x, 0)"),
    "diff": alike("m.diff(x)"),
    "norm": alike("m.linalg.norm(x)"),
    # indexing
    "x[3]": alike("x[3]"),
    "x[1:-1]": alike("x[1:-1] + 0"),
    "x[::2]": Case("x[::2] + 0", "x[::2] + 0", "x[::2] + 0"),
    "x[::-1]": Case("x[::-1] + 0", "x[::-1] + 0", "m.flip(x, (0,)) + 0"),
    "s[:, 1]": alike("s[:, 1] + 0"),
    "x[i]": alike("x[i]"),
    "take": Case("m.take(x, i)", "m.take(x, i)", "m.take(x, i)"),
    "take_along_axis": Case("m.take_along_axis(x, i, 0)", "m.take_along_axis(x, i, axis=0)", "m.gather(x, 0, i)"),
    "x[b]": alike("x[b]"),
    "nonzero": Case("m.nonzero(b)[0]", "m.nonzero(b)[0]", "m.nonzero(b)[:, 0]"),
    "searchsorted": alike("m.searchsorted(m.cumsum(p, 0), x)"),
    "tril": alike("m.tril(s)"),
    # sorting and sets
    "sort": Case("m.sort(x)", "m.sort(x)", "m.sort(x).values"),
    "argsort": Case("m.argsort(x)", "m.argsort(x)", "m.argsort(x)"),
    "sort of rows": Case("m.sort(s, axis=1)", "m.sort(s, axis=1)", "m.sort(s, dim=1).values"),
    "sort of integers": Case("m.sort(k)", "m.sort(k)", "m.sort(k).values"),
    "unique": Case("m.unique(k)", "m.unique_values(k)", "m.unique(k)"),
    "isin": Case("m.isin(k, k[:5])", "m.isin(k, k[:5])", "m.isin(k, k[:5])"),
    # manipulation
    "reshape": alike("x.reshape((-1, 2)) + 0"),
    "transpose": alike("s.T + 0"),
    "copy": Case("x.copy()", "m.asarray(x, copy=True)", "x.clone()"),
    "concat": Case("m.concatenate([x, y])", "m.concat([x, y])", "m.cat([x, y])"),
    "stack": alike("m.stack([x, y])"),
    "split": Case("m.split(x, 2)[1] + 0", "m.split(x, sections=2)[1] + 0", "m.chunk(x, 2)[1] + 0"),
    "roll": Case("m.roll(x, 1)", "m.roll(x, 1)", "m.roll(x, 1)"),
    "flip": Case("m.flip(s, 1) + 0", "m.flip(s, axis=1) + 0", "m.flip(s, (1,)) + 0"),
    "tile": Case("m.tile(x, 2)", "m.tile(x, (2,))", "m.tile(x, (2,))"),
    "repeat": Case("m.repeat(x, 2)", "m.repeat(x, 2)", "m.repeat_interleave(x, 2)"),
    "expand_dims": Case("x[:, None] + 0", "x[:, None] + 0", "x[:, None] + 0"),
    "broadcast_to": alike("m.broadcast_to(r, s.shape) + 0"),
    "pad": Case("m.pad(x, 1)", "m.pad(x, 1)", "m.nn.functional.pad(x, (1, 1))"),
    # creation and products
    "zeros": Case("m.zeros(n, m.float32)", "m.zeros(n)", "m.zeros(n)"),
    "arange": Case("m.arange(n)", "m.arange(n)", "m.arange(n)"),
    "linspace": Case("m.linspace(0, 1, n)", "m.linspace(0, 1, n)", "m.linspace(0, 1, n)"),
    "x @ y": alike("x @ y"),
    "s @ r": alike("s @ r"),
    "w @ w": alike("w @ w"),
    "outer": alike("m.outer(r, r)"),
    # functions of NumPy that Nacre calls
    "eigvalsh": alike("m.linalg.eigvalsh(w)"),
    "svdvals": alike("m.linalg.svdvals(w)"),
}
TRACED = ("x[b]", "nonzero", "unique", "zeros", "arange", "linspace")  # no compiled form: no operands, or unknown sizes
INEXACT = ("linspace", "argmax", "argsort", "prod")  # results that may differ in dtype, or among equal elements


def operands(size: int) -> dict[str, Any]:
    """The arrays of a size."""
    rng = np.random.default_rng(0)
    return {name: make(size, rng) for name, make in OPERANDS.items()}


def converted(library: str, value: Any) -> Any:
    """An operand as the library has it."""
    if not isinstance(value, np.ndarray) or library == "numpy":
        return value
    module: Any = import_module(library)
    return module.from_numpy(value.copy()) if library == "torch" else module.asarray(value)


def prepared(name: str, library: str, arrays: dict[str, Any], compiled: bool = False) -> Callable[[], Any]:
    """The call with its operands."""
    f, used = CASES[name].function(library)
    given = [converted(library, arrays[k]) for k in used]
    if compiled:
        f = import_module("nacre").jit(f)
    return lambda: f(*given)


def repetitions(run: Callable[[], Any], seconds: float) -> int:
    """How often a call fits into a time; it has run a few times then, or many times if it is short."""
    begin, made = time.perf_counter(), 0
    while made < 3 or (made < WARM and time.perf_counter() - begin < WARM * seconds):
        run()
        made += 1
    begin = time.perf_counter()
    run()
    return max(1, int(seconds / max(time.perf_counter() - begin, 1e-7)))


def timed(run: Callable[[], Any], count: int) -> float:
    """The seconds of a call, of many in a row; behind one call, as another library's has used caches and threads."""
    run()
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


class Peer:
    """PyTorch in a process of its own, which measures a round when it is told to."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words: object) -> float:
        """The answer to a request: prepare a call, or measure it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(words), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("calls: the peer must answer; its words are above")
        return json.loads(line)


def serve(requests: Iterable[str]) -> None:
    """Answer requests: `[name, size, seconds]` prepares a call, `[]` measures a round."""
    arrays: dict[int, dict[str, Any]] = {}
    run: Callable[[], Any] = lambda: None  # noqa: E731
    count = 1
    for line in requests:
        words = json.loads(line)
        if words:
            name, size, seconds = words
            if size not in arrays:
                arrays = {size: operands(size)}
            run = prepared(name, "torch", arrays[size])
            count = repetitions(run, seconds)
        print(0.0 if words else timed(run, count), flush=True)


def check(name: str, runs: dict[str, Callable[[], Any]]) -> None:
    """Stop where Nacre's numbers are others than NumPy's."""
    wanted = np.asarray(runs["numpy"]())
    for contender in ("nacre", "compiled"):
        if contender in runs and name not in INEXACT:
            found = np.asarray(runs[contender]())
            if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise SystemExit(f"calls: {name} must have NumPy's numbers, {wanted}; got {found} ({contender})")


def measured(name: str, size: int, arrays: dict[str, Any], rounds: int, seconds: float, peer: Peer | None) -> Times:
    """The times of a call in all rounds, by contender, which take turns."""
    runs = {library: prepared(name, library, arrays) for library in ("numpy", "nacre")}
    if name not in TRACED:
        runs["compiled"] = prepared(name, "nacre", arrays, compiled=True)
    check(name, runs)
    counts = {contender: repetitions(run, seconds) for contender, run in runs.items()}
    if peer is not None:
        peer.ask(name, size, seconds)
    times: Times = {contender: [] for contender in (*runs, *(["torch"] if peer else []))}
    for _ in range(rounds):
        for contender, run in runs.items():
            times[contender].append(timed(run, counts[contender]))
        if peer is not None:
            times["torch"].append(peer.ask())
    return times


def cell(times: Times, contender: str) -> str:
    """The least time, and the ratios to the faster of the others."""
    if contender not in times:
        return "–"
    others = [times[library] for library in ("numpy", "torch") if library in times]
    least, middle = (f(times[contender]) / min(map(f, others)) for f in (min, median))
    return f"{min(times[contender]) * 1e6:.3g} µs, {least:.2f} ({middle:.2f})"


def ratio(times: Times, contender: str) -> float | None:
    """The ratio of the least times of a contender and of the faster of the others."""
    if contender not in times:
        return None
    return min(times[contender]) / min(min(times[library]) for library in ("numpy", "torch") if library in times)


def table(every: dict[str, dict[str, Times]]) -> list[str]:
    """A row of ratios for each call, in Markdown."""
    heads = [f"{int(n):,}: eager, compiled" for n in map(str, SIZES)]
    lines = ["", f"| call | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for name in CASES:
        if name not in every:
            continue
        cells: list[str] = []
        for size in map(str, SIZES):
            pair = [ratio(every[name].get(size, {}), contender) for contender in ("nacre", "compiled")]
            cells.append(", ".join("–" if r is None else f"{r:.2f}" for r in pair))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return [*lines, ""]


def write_table(files: Sequence[str], page: Path) -> None:
    """Write the table of measured times into a page; a later file counts where several have a call."""
    every: dict[str, dict[str, Times]] = {}
    for file in files:
        for name, sizes in json.loads(Path(file).read_text(encoding="utf-8"))["calls"].items():
            every.setdefault(name, {}).update(sizes)
    lines = "\n".join(table(every))
    text = page.read_text(encoding="utf-8")
    written, count = re.subn(
        r"(<!-- calls -->\n).*?(<!-- called -->)", lambda m: f"{m[1]}{lines}\n{m[2]}", text, flags=re.S
    )
    if not count:
        raise SystemExit(f"calls: the page must have <!-- calls --> and <!-- called -->; got {page}")
    page.write_text(written, encoding="utf-8")


def add(file: Path, name: str, found: dict[int, Times]) -> None:
    """Add the times of a call to those in a file."""
    held: dict[str, dict[str, Times]] = {}
    if file.exists():
        held = json.loads(file.read_text(encoding="utf-8"))["calls"]
    held.setdefault(name, {}).update({str(n): times for n, times in found.items()})
    file.write_text(json.dumps({"calls": held}), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Measure, and print one table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="a Python that has torch")
    parser.add_argument("--only", nargs="+", default=[], help="names of calls")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.002, help="the least time of a round")
    parser.add_argument("--json", type=Path, help="a file to which all times are added")
    parser.add_argument("--table", nargs="+", help="files of times for the table of a page; nothing is measured")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    np.seterr(all="ignore")
    if given.serve:
        serve(sys.stdin)
        return 0
    if given.table:
        write_table(given.table, given.page)
        return 0
    if unknown := set(given.only) - set(CASES):
        parser.error(f"calls must be of {', '.join(CASES)}; got {', '.join(sorted(unknown))}")
    peer = Peer(given.peer) if given.peer else None
    sizes = {size: operands(size) for size in given.sizes}
    heads = [f"{n}, {how}" for n in sizes for how in ("eager", "compiled")]
    print(f"| call | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|")
    for name in given.only or CASES:
        found = {n: measured(name, n, arrays, given.rounds, given.seconds, peer) for n, arrays in sizes.items()}
        cells = [cell(times, how) for times in found.values() for how in ("nacre", "compiled")]
        print(f"| `{name}` | {' | '.join(cells)} |", flush=True)
        if given.json:
            add(given.json, name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
