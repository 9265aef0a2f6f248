"""Backward passes, loops over scalars, and derivatives of long graphs.

    python3 run.py bench autograd [backward] [loops] [graph] [--rounds 30] [--assembly]

`backward`: the backward pass of chains of about 1,000 small eager operations, beside torch where it is installed, in
turn.  `loops`: `nc.while_loop` of a million rounds, beside jax where it is installed.  A round is compared with the
cycles of its longest chain of dependent instructions.  The clock is that of a chain of integer multiplications, of
3 cycles each; other latencies are those of Zen 4.  `--assembly` prints the loops.  `graph`: 10,000 operations traced,
differentiated and verified.  Least times count.
"""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nacre as nc
from nacre.inspect.explain import explain
from nacre.interpret.stage import stage

ROUNDS = 1_000_000
OPERATIONS = 10_000


def mixed(m: Any, x: Any) -> Any:
    """Pointwise operations; x receives 500 cotangents."""
    y = x
    for _ in range(250):
        y = m.sin(m.tanh(y) * x) + x
    return y.sum()


def unary(m: Any, x: Any) -> Any:
    """Elementary functions."""
    y = x
    for _ in range(500):
        y = m.sin(m.tanh(y))
    return y.sum()


def scaled(m: Any, x: Any) -> Any:
    """Products with a number."""
    y = x
    for _ in range(1000):
        y = y * 0.999
    return y.sum()


def products(m: Any, x: Any) -> Any:
    """Matrix products, each with an elementary function."""
    y = x
    for _ in range(500):
        y = m.tanh(y @ x)
    return y.sum()


CHAINS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "mixed, 64 numbers": (mixed, (64,)),
    "mixed, scalars": (mixed, ()),
    "elementary functions, 64 numbers": (unary, (64,)),
    "products with a number, 64 numbers": (scaled, (64,)),
    "matrix products, 8 × 8": (products, (8, 8)),
}


def peer(name: str) -> Any:
    """A module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def pass_of(m: Any, f: Callable[[Any, Any], Any], x: Any) -> float:
    """The seconds of one backward pass."""
    loss = f(m, x)
    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin


def backward(rounds: int) -> None:
    """Print the least time of each chain's backward pass."""
    torch = peer("torch")
    if torch is not None:
        torch.set_num_threads(1)
    print(f"{'backward pass of about 1,000 operations':42} {'nacre ms':>9} {'torch ms':>9} {'ratio':>6}")
    for name, (f, shape) in CHAINS.items():
        data = (np.random.default_rng(0).normal(size=shape) * 0.3).astype(np.float32)
        ours, theirs = float("inf"), float("inf")
        for _ in range(rounds):
            if torch is not None:
                theirs = min(theirs, pass_of(torch, f, torch.tensor(data, requires_grad=True)))
            ours = min(ours, pass_of(nc, f, nc.tensor(data).requires_grad_()))
        other = f"{theirs * 1e3:9.3f} {theirs / ours:6.1f}" if torch is not None else ""
        print(f"{name:42} {ours * 1e3:9.3f} {other}", flush=True)


class Loop:
    """A loop of a counter and perhaps one more number: the further step, and the cycles of its longest chain."""

    def __init__(self, chain: int, start: Any, step: Callable[[Any], Any] | None, dtype: str) -> None:
        self.chain, self.start, self.step, self.dtype = chain, start, step, dtype

    def run(self, while_loop: Callable[..., Any], count: Any, value: Any, n: Any) -> Any:
        """The loop, by a framework's `while_loop`."""
        step = self.step
        if step is None:
            return while_loop(lambda c: c < n, lambda c: c + 1, count)
        return while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1])), (count, value))


LOOPS = {
    "integer multiplication": Loop(3, 3, lambda x: x * 1664525, "uint32"),
    "count": Loop(1, 0, None, "int32"),
    "float addition": Loop(3, 0.0, lambda x: x + 0.5, "float32"),
    "float multiplication and addition": Loop(6, 0.0, lambda x: x * 0.5 + 1.0, "float32"),
    "integer multiplication and addition": Loop(4, 1, lambda x: x * 1664525 + 1013904223, "uint32"),
}


def least(f: Callable[[], Any], rounds: int) -> float:
    """The least seconds of a call."""
    times: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return min(times)


def loops(rounds: int, assembly: bool) -> None:
    """Print the time and the cycles of each loop's round."""
    jax = peer("jax")
    print(f"{'while_loop':36} {'ns':>6} {'cycles':>7} {'chain':>6} {'jax ns':>7} {'ratio':>6}")
    clock = 0.0  # cycles per nanosecond
    for name, loop in LOOPS.items():
        dtype = getattr(nc, loop.dtype)
        f = nc.jit(lambda c, x, n, loop=loop: loop.run(nc.while_loop, c, x, n))
        given = nc.tensor(0, dtype=nc.int32), nc.tensor(loop.start, dtype=dtype), nc.tensor(ROUNDS, dtype=nc.int32)
        f(*given)
        ours = least(lambda f=f, given=given: f(*given), rounds) / ROUNDS * 1e9
        clock = clock or loop.chain / ours
        other = ""
        if jax is not None:
            g = jax.jit(lambda c, x, n, loop=loop: loop.run(lambda *a: jax.lax.while_loop(*a), c, x, n))
            same = tuple(jax.numpy.asarray(x.numpy()) for x in given)
            jax.block_until_ready(g(*same))
            theirs = least(lambda g=g, same=same: jax.block_until_ready(g(*same)), rounds) / ROUNDS * 1e9
            other = f"{theirs:7.3f} {theirs / ours:6.1f}"
        print(f"{name:36} {ours:6.3f} {ours * clock:7.2f} {loop.chain:6d} {other}", flush=True)
        if assembly:
            print(loop_assembly(f, *given))


def loop_assembly(f: Any, *given: Any) -> str:
    """The instructions of the loop in a function's assembly."""
    text = str(explain(f, *given).assembly(loop_step(f, *given)))
    found = re.search(r"\.p2align\t4\n(\.LBB0_\d+:\n.*?\tj\w+\t\.LBB0_\d+\n(?:.*?\tj\w+\t\.LBB0_\d+\n)?)", text, re.S)
    return text if found is None else found[1]


def loop_step(f: Any, *given: Any) -> int:
    """The step of a program that is a loop over scalars."""
    return next(k for k, each in enumerate(explain(f, *given).stages) if "scalar_loop" in each.label)


def graph(rounds: int) -> None:
    """Print the time in which a chain of operations is traced, differentiated and verified."""

    def chain(x: Any) -> Any:
        y = x
        for _ in range(OPERATIONS // 4):
            y = nc.sin(nc.tanh(y) * x) + x
        return nc.sum(y)

    x = nc.ones(64)
    equations = 0

    def derived() -> None:
        nonlocal equations
        made = stage(lambda x: [nc.grad(chain)(x)], (x.type,)).graph
        equations = len(made.equations)
        made.verify()

    print(f"{OPERATIONS} operations traced, differentiated and verified: {least(derived, rounds):.2f} s")
    print(f"the gradient has {equations} equations")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", default=["backward", "loops", "graph"], help="backward, loops, graph")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--assembly", action="store_true")
    given = parser.parse_args()
    if "backward" in given.parts:
        backward(given.rounds)
    if "loops" in given.parts:
        loops(given.rounds, given.assembly)
    if "graph" in given.parts:
        graph(min(given.rounds, 3))


if __name__ == "__main__":
    main()
