"""Operations whose time is that of moving bytes: rows, reductions, gathers, sorts, beside memory and beside torch.

    python3 run.py bench memory_speed [--peer PYTHON] [--only WORD ...] [--size near|far] [--json FILE]

Each operation runs at two sizes: `near` fits into the caches of a core or two, `far` into none.  GB/s count the bytes
that must move at least, each operand read once and each result written once; `share` is that beside what the machine
reaches for so many bytes (see `nacre.inspect.ceilings`).  A peer is torch, in the Python that is given: it runs
eagerly, as its users run it, in a process of its own, in turn with Nacre, and its results are compared with ours.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
ROUNDS = 3
SIZES = {"near": 1 << 18, "far": 1 << 24}  # elements of the main operand: 1 and 64 MiB of float32


@dataclass(frozen=True)
class Case:
    """An operation at a size: its operands, the bytes that must move, and how each library is asked for it.

    `ours` and `theirs` take the library, then the operands.  `alike` tells whether results can be compared.
    """

    operands: tuple[Array, ...]
    moved: int
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    alike: bool = True


_numbers = np.random.default_rng(0).standard_normal(1 << 20, np.float32)  # random ones take long to make


def floats(*shape: int) -> Array:
    """Random numbers, repeated where there are many."""
    count = int(np.prod(shape))
    return np.resize(_numbers, count).reshape(shape) if count > _numbers.size else _numbers[:count].reshape(shape)


def positions(below: int, *shape: int) -> Array:
    """Random indices."""
    return np.random.default_rng(1).integers(0, below, shape)


def nbytes(*arrays: Array) -> int:
    """The bytes of arrays together."""
    return sum(a.nbytes for a in arrays)


def rowwise(n: int, length: int, ours: Callable[..., Any], theirs: Callable[..., Any], results: int = 2) -> Case:
    """An operation on rows of a length; `results` is 1 where only the operand is large, 2 where the result is, too."""
    x = floats(n // length, length)
    return Case((x,), results * x.nbytes, ours, theirs)


def streams(n: int) -> dict[str, Case]:
    """Pointwise work and casts."""
    x, y = floats(n), floats(n)[::-1].copy()
    half = x.astype(np.float16)
    return {
        "copy": Case((x,), 2 * x.nbytes, lambda nc, x: nc.asarray(x, copy=True), lambda t, x: x.clone()),
        "add": Case((x, y), 3 * x.nbytes, lambda nc, x, y: x + y, lambda t, x, y: x + y),
        "multiply, add, exp": Case(
            (x,), 2 * x.nbytes, lambda nc, x: nc.exp(x * 0.5 + 1), lambda t, x: t.exp(x * 0.5 + 1)
        ),
        "where": Case(
            (x > 0, x, y), 3 * x.nbytes + n, lambda nc, c, x, y: nc.where(c, x, y), lambda t, c, x, y: t.where(c, x, y)
        ),
        "cast f32 to f16": Case(
            (x,), x.nbytes + half.nbytes, lambda nc, x: nc.astype(x, nc.float16), lambda t, x: x.to(t.float16)
        ),
        "cast f16 to f32": Case(
            (half,), x.nbytes + half.nbytes, lambda nc, x: nc.astype(x, nc.float32), lambda t, x: x.to(t.float32)
        ),
        "cast f32 to i64": Case((x,), 3 * x.nbytes, lambda nc, x: nc.astype(x, nc.int64), lambda t, x: x.to(t.int64)),
        "add a row": Case(
            (floats(n // 512, 512), floats(512)), 2 * x.nbytes, lambda nc, x, y: x + y, lambda t, x, y: x + y
        ),
        "add a column": Case(
            (floats(n // 512, 512), floats(n // 512, 1)), 2 * x.nbytes, lambda nc, x, y: x + y, lambda t, x, y: x + y
        ),
    }


def reductions(n: int) -> dict[str, Case]:
    """What makes few numbers of many."""
    side = 1 << (n.bit_length() - 1) // 2
    x = floats(side, side)
    tall, wide, cube = floats(n // 64, 64), floats(64, n // 64), floats(n // 1024, 32, 32)

    def of(x: Array, ours: Callable[..., Any], theirs: Callable[..., Any]) -> Case:
        return Case((x,), x.nbytes, ours, theirs)

    return {
        "sum": of(x, lambda nc, x: nc.sum(x), lambda t, x: x.sum()),
        "sum of rows": of(x, lambda nc, x: nc.sum(x, axis=1), lambda t, x: x.sum(1)),
        "sum of columns": of(x, lambda nc, x: nc.sum(x, axis=0), lambda t, x: x.sum(0)),
        "sum of 64 columns": of(tall, lambda nc, x: nc.sum(x, axis=0), lambda t, x: x.sum(0)),
        "sum of columns of 64": of(wide, lambda nc, x: nc.sum(x, axis=0), lambda t, x: x.sum(0)),
        "sum of rows of 64": of(tall, lambda nc, x: nc.sum(x, axis=1), lambda t, x: x.sum(1)),
        "sum of a middle axis": of(cube, lambda nc, x: nc.sum(x, axis=1), lambda t, x: x.sum(1)),
        "sum of the outer axes": of(cube, lambda nc, x: nc.sum(x, axis=(0, 2)), lambda t, x: x.sum((0, 2))),
        "max": of(x, lambda nc, x: nc.max(x), lambda t, x: x.max()),
        "max of columns": of(x, lambda nc, x: nc.max(x, axis=0), lambda t, x: x.amax(0)),
        "argmax of rows": of(x, lambda nc, x: nc.argmax(x, axis=1), lambda t, x: x.argmax(1)),
        "argmax of columns": of(x, lambda nc, x: nc.argmax(x, axis=0), lambda t, x: x.argmax(0)),
        "var of rows": of(x, lambda nc, x: nc.var(x, axis=1), lambda t, x: x.var(1, correction=0)),
        "var of columns": of(x, lambda nc, x: nc.var(x, axis=0), lambda t, x: x.var(0, correction=0)),
    }


def rows(n: int) -> dict[str, Case]:
    """Composites over rows, and scans."""
    found: dict[str, Case] = {}
    for length in (16, 100, 1024, 16384):
        found[f"softmax of {length}"] = rowwise(
            n, length, lambda nc, x: nc.nn.functional.softmax(x), lambda t, x: t.softmax(x, -1)
        )
    for length in (64, 768, 8192):
        found[f"layer norm of {length}"] = rowwise(
            n,
            length,
            lambda nc, x, k=length: nc.nn.functional.layer_norm(x, (k,)),
            lambda t, x, k=length: t.nn.functional.layer_norm(x, (k,)),
        )
    labels = positions(1000, n // 1000)
    logits = floats(n // 1000, 1000)
    found["cross entropy of 1000"] = Case(
        (logits, labels),
        nbytes(logits, labels),
        lambda nc, x, k: nc.nn.functional.cross_entropy(x, k),
        lambda t, x, k: t.nn.functional.cross_entropy(x, k),
    )
    found["one hot of 1000"] = Case(
        (labels,),
        labels.nbytes + logits.nbytes,
        lambda nc, k: nc.astype(nc.nn.functional.one_hot(k, 1000), nc.float32),
        lambda t, k: t.nn.functional.one_hot(k, 1000).to(t.float32),
    )
    found["cumulative sum of rows"] = rowwise(
        n, 1024, lambda nc, x: nc.cumulative_sum(x, axis=1), lambda t, x: x.cumsum(1)
    )
    found["cumulative sum of columns"] = rowwise(
        n, 1024, lambda nc, x: nc.cumulative_sum(x, axis=0), lambda t, x: x.cumsum(0)
    )
    return found


def moves(n: int) -> dict[str, Case]:
    """The same elements in other places."""
    side = 1 << (n.bit_length() - 1) // 2
    x, half = floats(side, side), floats(side, side // 2)
    cube, image = floats(n // 4096, 64, 64), floats(n // 65536, 64, 32, 32)
    words, octets = x.astype(np.float16), (x * 40).astype(np.int8)
    both, padded = 2 * x.nbytes, x.nbytes + (side + 2) ** 2 * 4

    def of(x: Array, ours: Callable[..., Any], theirs: Callable[..., Any], moved: int = both) -> Case:
        return Case((x,), moved, ours, theirs)

    def two(a: Array, b: Array, ours: Callable[..., Any], theirs: Callable[..., Any]) -> Case:
        return Case((a, b), 2 * nbytes(a, b), ours, theirs)

    return {
        "transpose": of(x, lambda nc, x: nc.permute_dims(x, (1, 0)), lambda t, x: x.t().contiguous()),
        "permute 0 2 1": of(
            cube, lambda nc, x: nc.permute_dims(x, (0, 2, 1)), lambda t, x: x.permute(0, 2, 1).contiguous()
        ),
        "permute 1 0 2": of(
            cube, lambda nc, x: nc.permute_dims(x, (1, 0, 2)), lambda t, x: x.permute(1, 0, 2).contiguous()
        ),
        "permute 2 0 1": of(
            cube, lambda nc, x: nc.permute_dims(x, (2, 0, 1)), lambda t, x: x.permute(2, 0, 1).contiguous()
        ),
        "transpose of 16 bits": of(
            words, lambda nc, x: nc.permute_dims(x, (1, 0)), lambda t, x: x.t().contiguous(), both // 2
        ),
        "transpose of 8 bits": of(
            octets, lambda nc, x: nc.permute_dims(x, (1, 0)), lambda t, x: x.t().contiguous(), both // 4
        ),
        "channels to the end": of(
            image, lambda nc, x: nc.permute_dims(x, (0, 2, 3, 1)), lambda t, x: x.permute(0, 2, 3, 1).contiguous()
        ),
        "transpose and reshape": of(
            x, lambda nc, x: nc.reshape(nc.permute_dims(x, (1, 0)), (-1,)), lambda t, x: x.t().reshape(-1)
        ),
        "concatenate rows": two(
            half, half, lambda nc, a, b: nc.concat((a, b), axis=0), lambda t, a, b: t.cat((a, b), 0)
        ),
        "concatenate columns": two(
            half, half, lambda nc, a, b: nc.concat((a, b), axis=1), lambda t, a, b: t.cat((a, b), 1)
        ),
        "concatenate a column": two(
            x, floats(side, 1), lambda nc, a, b: nc.concat((a, b), axis=1), lambda t, a, b: t.cat((a, b), 1)
        ),
        "stack first": two(half, half, lambda nc, a, b: nc.stack((a, b)), lambda t, a, b: t.stack((a, b))),
        "stack last": two(half, half, lambda nc, a, b: nc.stack((a, b), axis=-1), lambda t, a, b: t.stack((a, b), -1)),
        "every second column": of(x, lambda nc, x: x[:, ::2], lambda t, x: x[:, ::2].contiguous(), x.nbytes * 3 // 2),
        "every second row": of(x, lambda nc, x: x[::2], lambda t, x: x[::2].contiguous(), x.nbytes),
        "reverse columns": of(x, lambda nc, x: nc.flip(x, axis=1), lambda t, x: x.flip(1)),
        "reverse rows": of(x, lambda nc, x: nc.flip(x, axis=0), lambda t, x: x.flip(0)),
        "roll": of(x, lambda nc, x: nc.roll(x, 5, axis=1), lambda t, x: x.roll(5, 1)),
        "pad": of(
            x, lambda nc, x: nc.pad(x, ((1, 1), (1, 1))), lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)), padded
        ),
        "broadcast a row": of(
            floats(1, side),
            lambda nc, x: nc.broadcast_to(x, (side, side)) + 0.0,
            lambda t, x: x.expand(side, side).clone(),
            x.nbytes,
        ),
        "repeat each": of(
            floats(n // 4), lambda nc, x: nc.repeat(x, 4), lambda t, x: x.repeat_interleave(4), x.nbytes * 5 // 4
        ),
        "tile": of(
            floats(side, side // 2), lambda nc, x: nc.tile(x, (1, 2)), lambda t, x: x.repeat(1, 2), x.nbytes * 3 // 2
        ),
    }


def indexed(n: int) -> dict[str, Case]:
    """Reading and adding at computed places, and sorting."""
    width = 256
    table, at = floats(n // width, width), positions(n // width, n // width)
    x, along = floats(n // 1024, 1024), positions(1024, n // 1024, 1024)
    row = floats(n)
    flat, anywhere = floats(n), positions(n, n // 4)
    best = floats(n // 1024, 1024)
    moved = 2 * table.nbytes + at.nbytes

    def scatter(t: Any, x: Any, k: Any, u: Any) -> Any:
        return t.zeros_like(x).index_add_(0, k, u)

    def embedded(nc: Any, x: Any, k: Any, u: Any) -> Any:
        return nc.grad(lambda x: nc.sum(nc.nn.functional.embedding(k, x) * u))(x)

    return {
        "take rows": Case((table, at), moved, lambda nc, x, k: nc.take(x, k, axis=0), lambda t, x, k: x[k]),
        "take anywhere": Case((flat, anywhere), 4 * n, lambda nc, x, k: nc.take(x, k), lambda t, x, k: x[k]),
        "take along rows": Case(
            (x, along),
            2 * x.nbytes + along.nbytes,
            lambda nc, x, k: nc.take_along_axis(x, k, axis=1),
            lambda t, x, k: x.gather(1, k),
        ),
        "gradient of an embedding": Case((table, at, table), moved, embedded, scatter),
        "gradient of a read along rows": Case(
            (x, along, x),
            2 * x.nbytes + along.nbytes,
            lambda nc, x, k, u: nc.grad(lambda x: nc.sum(nc.take_along_axis(x, k, axis=1) * u))(x),
            lambda t, x, k, u: t.zeros_like(x).scatter_add_(1, k, u),
        ),
        "sort": Case((row,), 2 * row.nbytes, lambda nc, x: nc.sort(x), lambda t, x: x.sort(stable=True)[0]),
        "sort rows of 1024": Case(
            (best,), 2 * best.nbytes, lambda nc, x: nc.sort(x), lambda t, x: x.sort(stable=True)[0]
        ),
        "argsort rows of 1024": Case(
            (best,), 3 * best.nbytes, lambda nc, x: nc.argsort(x), lambda t, x: x.argsort(stable=True)
        ),
        "sort rows of 16": rowwise(n, 16, lambda nc, x: nc.sort(x), lambda t, x: x.sort(stable=True)[0]),
        "10 best of 1024": Case((best,), best.nbytes, lambda nc, x: nc.topk(x, 10)[0], lambda t, x: x.topk(10)[0]),
    }


def drawn(n: int) -> dict[str, Case]:
    """Random numbers."""
    x = floats(n)
    return {
        "uniform": Case((), 4 * n, lambda nc: nc.random.uniform((n,)), lambda t: t.rand(n), False),
        "normal": Case((), 4 * n, lambda nc: nc.random.normal((n,)), lambda t: t.randn(n), False),
        "dropout": Case(
            (x,),
            2 * x.nbytes,
            lambda nc, x: nc.nn.functional.dropout(x, 0.1),
            lambda t, x: t.nn.functional.dropout(x, 0.1),
            False,
        ),
    }


FAMILIES = (streams, reductions, rows, moves, indexed, drawn)


def chosen(only: Sequence[str], sizes: Sequence[str]) -> list[tuple[str, str]]:
    """The names of the cases that are asked for, with the sizes."""
    names = [name for family in FAMILIES for name in family(1 << 16)]
    return [(name, size) for name in names if not only or any(word in name for word in only) for size in sizes]


def case_of(name: str, size: str) -> Case:
    """One case, with its operands."""
    return next(found[name] for family in FAMILIES if name in (found := family(SIZES[size])))


def seconds(call: Callable[[], Any], budget: float) -> float:
    """The least time of a call."""
    for _ in range(2):
        call()
    least, end = float("inf"), time.perf_counter() + budget
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        least = min(least, now - start)
        if now >= end:
            return least


def summary(result: Any) -> list[float]:
    """A few numbers that tell results apart: the sum, one weighted by place, and some elements."""
    y = np.asarray(result).astype(np.float64).ravel()
    weighted = float(np.dot(y, np.cos(np.arange(y.size)))) if y.size <= 1 << 20 else 0.0
    return [float(y.size), float(y.sum()), weighted, *(float(y[k]) for k in range(0, y.size, max(1, y.size // 50)))]


def our_call(case: Case) -> Callable[[], Any]:
    """The operation compiled by Nacre."""
    nc = importlib.import_module("nacre")
    importlib.import_module("nacre.nn")
    f, given = nc.jit(lambda *xs: case.ours(nc, *xs)), [nc.asarray(x, copy=True) for x in case.operands]
    return lambda: f(*given)


def their_call(case: Case) -> Callable[[], Any]:
    """The operation by torch."""
    torch = importlib.import_module("torch")
    torch.set_grad_enabled(False)
    given = [torch.from_numpy(x.copy()) for x in case.operands]
    return lambda: case.theirs(torch, *given)


def serve(library: str) -> None:
    """Time the cases that come in by name, one a line, until there are no more."""
    held: dict[tuple[str, str], tuple[Case, Callable[[], Any]]] = {}
    for line in sys.stdin:
        name, size, budget = json.loads(line)
        if (name, size) not in held:
            held.clear()
            case = case_of(name, size)
            held[name, size] = case, (our_call if library == "nacre" else their_call)(case)
        case, call = held[name, size]
        least = seconds(call, budget)
        result = call()
        print(json.dumps([least, case.moved, summary(result) if case.alike else None]), flush=True)


def start(python: str, library: str) -> subprocess.Popen[str]:
    """A process that serves a library."""
    steady = {**os.environ, "OMP_PROC_BIND": "true"}  # two threads that share a core for a while tell nothing
    return subprocess.Popen(
        [python, __file__, "--serve", library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=steady
    )


def ask(process: subprocess.Popen[str], name: str, size: str, budget: float) -> Any:
    """One measurement by a process."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([name, size, budget]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"memory_speed: {name} ({size}) is required to run; its process ended; see its message above")
    return json.loads(line)


def compared(name: str, one: list[float] | None, other: list[float] | None) -> str:
    """A remark where two results differ."""
    if one is None or other is None:
        return ""
    if len(one) == len(other) and np.allclose(one, other, 1e-2, 1e-2 * max(1.0, one[0] ** 0.5)):
        return ""
    return f"  differs from torch: {one[:4]} and {other[:4]}"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peer", help="a Python that has torch")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--size", choices=tuple(SIZES), nargs="*", default=tuple(SIZES))
    parser.add_argument("--seconds", type=float, default=0.1, help="for each case, round and library")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", help="a file for the numbers")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    ceilings = importlib.import_module("nacre.inspect.ceilings").ceilings()
    processes = {"nacre": start(sys.executable, "nacre")}
    if given.peer:
        processes["torch"] = start(given.peer, "torch")
    found: list[dict[str, Any]] = []
    print(f"{'':34} {'ms':>9} {'GB/s':>7} {'share':>6} {'torch ms':>9} {'torch/nacre':>11}")
    for name, size in chosen(given.only, given.size):
        least: dict[str, float] = {}
        results: dict[str, Any] = {}
        moved = 0
        for _ in range(given.rounds):
            for library, process in processes.items():
                taken, moved, results[library] = ask(process, name, size, given.seconds)
                least[library] = min(taken, least.get(library, float("inf")))
        ours, theirs = least["nacre"], least.get("torch")
        share = moved / ours / ceilings.bandwidth(moved)
        beside = f"{theirs * 1e3:9.3f} {theirs / ours:11.2f}" if theirs else ""
        remark = compared(name, results["nacre"], results.get("torch")) if theirs else ""
        print(
            f"{name + ', ' + size:34} {ours * 1e3:9.3f} {moved / ours / 1e9:7.1f} {share:6.0%} {beside}{remark}",
            flush=True,
        )
        found.append({"name": name, "size": size, "moved": moved, "share": share, **least})
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
