"""64 small models by `vmap` beside a loop over them: the same bits, and the time of a training step of all.

python benchmarks/ensembles.py
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import nacre as nc
from nacre import nn, optim

MODELS, ROUNDS, STEPS = 64, 15, 10


def network(seed: int) -> nn.Module:
    """A small network with its own random weights."""
    nc.random.seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def loss(leaves: Any, x: Any, y: Any) -> Any:
    """The mean squared error of the network with these parameters."""
    return ((nc.tree.unflatten(STRUCTURE, leaves)(x) - y) ** 2).mean()


STRUCTURE = nc.tree.structure(network(0))


def main() -> None:
    """Train both ways in turn, compare the bits, and print the least times."""
    nc.random.seed(99)
    x = nc.random.normal((32, 8))
    y = nc.sin(x.sum(axis=1, keepdims=True))
    opt = optim.functional(optim.Adam, lr=1e-2)

    def step(leaves: Any, state: Any, x: Any, y: Any) -> Any:
        return opt.step(leaves, nc.grad(loss)(leaves, x, y), state)

    models = [[p.data for p in nc.tree.leaves(network(k))] for k in range(MODELS)]
    members = [(m, opt.start(m)) for m in models]
    ensemble: Any = [nc.stack(ps) for ps in zip(*models, strict=True)]
    state = nc.vmap(opt.start)(ensemble)
    one, every = nc.jit(step), nc.jit(nc.vmap(step, in_axes=(0, 0, None, None)))
    least = [float("inf")] * 2
    for _ in range(ROUNDS):
        began = perf_counter()
        for _ in range(STEPS):
            members = [one(m, s, x, y) for m, s in members]
        between = perf_counter()
        for _ in range(STEPS):
            ensemble, state = every(ensemble, state, x, y)
        ended = perf_counter()
        least = [min(a, b) for a, b in zip(least, (between - began, ended - between), strict=True)]
    pairs = [(p[k], q) for k, (m, _) in enumerate(members) for p, q in zip(ensemble, m, strict=True)]
    same = all(bool(nc.all(p == q)) for p, q in pairs)
    loop, batch = (1e3 * t / STEPS for t in least)
    print(f"{MODELS} models, {ROUNDS * STEPS} steps, equal bits: {same}")
    print(f"a step of all: {loop:.3f} ms in a loop, {batch:.3f} ms by vmap, {loop / batch:.1f} times as fast")


if __name__ == "__main__":
    main()
