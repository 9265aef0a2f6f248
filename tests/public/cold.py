"""The program that the test of threads runs in separate processes: public names, first used by many threads at once.

`python cold.py THREADS NAME …` runs the docstring's example of each name, or without names some whole programs, a few
times in all threads together.  It prints as JSON the digests of the results, the errors, the most times that one
operation was prepared, which ones were prepared again, and the number of compiled objects.
"""

from __future__ import annotations

import ast
import faulthandler
import hashlib
import inspect
import json
import os
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from doctest import DocTestParser
from typing import Any

import numpy as np

import nacre as nc
from nacre import nn, optim
from nacre.base import tree
from nacre.base.locks import Turns
from nacre.data import DataLoader, TensorDataset
from nacre.native import cache
from surface import NAMES

ROUNDS = 3  # repeated calls may be compiled
PATIENCE = 240  # seconds after which all threads' stacks are printed, and the process ends


def example(name: str) -> Callable[[], list[str]]:
    """A callable that runs the example of a public name and returns a digest of each value that it shows."""
    steps = [ast.parse(e.source) for e in DocTestParser().get_examples(inspect.getdoc(NAMES[name]) or "")]
    names = {"nc": nc, "np": np, "nn": nc.nn, "optim": nc.optim, "data": nc.data, "F": nc.nn.functional}

    def run() -> list[str]:
        held, found = dict(names), list[str]()
        for step in steps:
            last = step.body[-1]
            if isinstance(last, ast.Expr) and len(step.body) == 1:
                found.append(digest(eval(compile(ast.Expression(last.value), name, "eval"), held)))
            else:
                exec(compile(step, name, "exec"), held)
        return found

    return run


def digest(x: Any) -> str:
    """The bits of the tensors in a value; the types of other objects."""
    told = hashlib.sha256()
    for leaf in tree.flatten(x)[0]:
        leaf = leaf.value if isinstance(leaf, nc.Variable) else leaf
        told.update(type(leaf).__name__.encode())
        if isinstance(leaf, nc.Tensor):
            told.update(f"{leaf.type}".encode() + leaf.numpy().tobytes())
    return told.hexdigest()


def programs() -> dict[str, Callable[[], list[str]]]:
    """Whole programs that share models, compiled functions and loaders among the threads."""

    class Network(nn.Module):
        def __init__(self) -> None:
            self.first, self.norm = nn.Linear(8, 16), nn.LayerNorm(16)
            self.blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])
            self.last = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0)

        def forward(self, x: Any) -> Any:
            x = nn.functional.relu(self.norm(self.first(x)))
            for block in self.blocks:
                x = x + nc.tanh(block(x))
            return self.last(x[None])[0]

    def loss(model: Any, x: Any) -> Any:
        return nc.sum(model(x) ** 2)

    nc.random.seed(0)
    model, x = Network(), nc.tensor(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8))
    shared = [nc.jit(model), nc.jit(nc.grad(loss)), nc.jit(nc.vmap(lambda m, r: nc.sum(m.first(r)), (None, 0)))]
    inner = nc.jit(lambda x: nc.tanh(x) + 1)
    outer = nc.jit(lambda x: inner(x) * inner(x + 1))
    loader = DataLoader(TensorDataset(x, x + 1), batch_size=2)

    def step() -> list[str]:
        own = nn.Linear(8, 3)
        own.load_state_dict({"weight": x[:3], "bias": x[0, :3]})
        found = [digest(own(x))]
        for optimiser in (optim.SGD(own.parameters(), lr=0.1, momentum=0.9), optim.Adam(own.parameters())):
            update = nc.jit(lambda x, o=optimiser: (o.zero_grad(), loss(own, x).backward(), o.step())[0])
            update(x)
            optimiser.zero_grad()
            loss(own, x).backward()
            optimiser.step()
            found.append(digest([*own.parameters()]))
        return found

    return {
        "a model, eager": lambda: [digest(model(x))],
        "a model, compiled": lambda: [digest(shared[0](x))],
        "gradients, eager": lambda: [digest([*nc.grad(loss)(model, x * k).parameters()]) for k in (1, 2)],
        "gradients, compiled": lambda: [digest([*shared[1](model, x).parameters()])],
        "a compiled batch": lambda: [digest(shared[2](model, x))],
        "compiled in compiled": lambda: [digest(outer(x)), digest(inner(x))],
        "batches": lambda: [digest(batch) for batch in loader],
        "optimiser steps": step,
        "attributes": lambda: [str(sorted(model.state_dict())), str(len([*model.parameters()])), repr(model)],
        "concrete functions": lambda: [str([len(f.concrete_functions) for f in (*shared, inner, outer)])],
    }


def main(threads: int, names: list[str]) -> None:
    """Run all and print the results."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    sys.setswitchinterval(1e-6)
    os.chdir(tempfile.mkdtemp())
    prepared, fill = Counter[tuple[int, Any]](), Turns.fill
    alive = dict[int, Any]()  # all caches, so that none has the number of an earlier one
    Turns.fill = lambda self, known, key, limit, make, *version: fill(  # type: ignore[method-assign]
        self,
        known,
        key,
        limit,
        lambda: (prepared.update([(id(alive.setdefault(id(known), known)), key)]), make())[1],
        *version,
    )
    tasks = {name: example(name) for name in names} or programs()
    results: dict[str, list[list[list[str]]]] = {name: [[] for _ in range(threads)] for name in tasks}
    faults: dict[str, str] = {}
    meet = threading.Barrier(threads)

    def work(k: int) -> None:
        for name, task in tasks.items():
            meet.wait()
            try:
                results[name][k] = [task() for _ in range(ROUNDS)]
            except BaseException:
                faults[name] = traceback.format_exc()

    started = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        for t in started:
            t.start()
        for t in started:
            t.join()
    told = {
        "results": results,
        "faults": faults,
        "prepared": max(prepared.values(), default=0),
        "again": [str(key) for (_, key), count in prepared.items() if count > 1],
        "objects": cache.shared().compiled,
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
