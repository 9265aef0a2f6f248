"""Files that are changed at random, taken by whatever reads them: nothing but `nacre.Error` may come of it.

    python tests/mutations.py --into FOLDER [--count 30000] [--seed 1] [--kinds program,frozen,…]

Each number of a kind is one mutation, made from the seed and that number alone.  They run in processes of their own, so
that a crash or a hang is found and named; a run that is interrupted goes on where it was, in the same folder.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nacre as nc
from nacre import data, deploy, nn, optim, train
from nacre.base import tree
from nacre.base.dims import evaluate
from nacre.base.dtypes import ALL
from nacre.base.types import TensorType
from nacre.compile.program import cache as stored
from nacre.compile.program.executor import EXECUTOR
from nacre.formats.safetensors import opened
from nacre.interpret.stage import stage
from nacre.ir.graph import Builder, Graph
from nacre.ir.parse import parse
from nacre.ir.primitive import registered
from nacre.ir.text import print_graph
from nacre.native import cache as objects
from nacre.runtime import tunables

PATIENCE = 20  # seconds that one mutation may take in Python; three times as long where Python has no say
FIRST = 300  # seconds until the first one begins: on a busy machine, what is mutated takes a while to make
SHARES = {
    "program": 12_500,
    "frozen": 10_000,
    "safetensors": 4_000,
    "checkpoint": 3_000,
    "training": 1_500,
    "npy": 2_000,
    "cache": 2_000,
}
MOST = 1 << 16  # elements of an input that is given to a program that still loads
TOKEN = re.compile(r"\"[^\"]*\"|[A-Za-z_][\w.]*|\d+(?:\.\d+)?|\S|\n *")
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "-5",
    "64",
    "65536",
    "1000000",
    "2147483648",
    "4611686018427387904",
    "9223372036854775807",
    "99999999999999999999",
    "1e30",
    "0.5",
    "nan",
    "inf",
    "True",
    "None",
    "()",
    "(0,)",
    "(1, 0)",
    '"word"',
    "f32",
    "i64",
    "bool",
)


VALUES: tuple[Any, ...] = (  # that stand in JSON documents instead of others
    None, True, 0, -1, 1, 3, 1 << 62, 10 ** 30, 0.5, 1e308, "word", "", [], [None], ["a", "b"], {}, {"dict": []},
    {"dict": [["a", 1]]}, {"dict": [[1, 2]]}, {"tuple": [1, 2]}, {"float": "nan"}, {"float": "-inf"},
    {"tensor": "random"}, {"tensor": "nowhere"},
)  # fmt: skip


class Hang(BaseException):
    """A mutation took too long."""


# ---- what is mutated


def graphs() -> Iterator[Any]:
    """Small functions that between them use most primitives, as graphs."""
    x, y, n = nc.zeros((4, 6)), nc.zeros((6, 5)), nc.zeros((4,), dtype="int64")
    image, filters = nc.zeros((1, 2, 6, 6)), nc.zeros((3, 2, 3, 3))
    functional = nn.functional
    for f, given in (
        (lambda a, b: functional.softmax(nc.tanh(a @ b) + 1.5), (x, y)),
        (lambda a, b: nc.sum(nc.where(a > 0, nc.exp(a), -a) ** 2, axis=0) - nc.max(b), (x, y)),
        (lambda a: nc.grad(lambda z: nc.sum(nc.sin(z) * nc.log1p(z * z)))(a), (x,)),
        (lambda a, k: nc.take(a, k, axis=0) + nc.sort(a, axis=1), (x, n)),
        (lambda a, k: nc.cumulative_sum(a, axis=1) * nc.argmax(a, axis=0).astype("float32"), (x, n)),
        (lambda a, k: nc.searchsorted(nc.cumulative_prod(a[0]), a), (x, n)),
        (lambda a: nc.concat([nc.flip(a, axis=1), nc.pad(a[1:, ::2], ((1, 0), (1, 2)))], axis=1), (x,)),
        (lambda a, w: functional.max_pool2d(functional.relu(functional.conv2d(a, w, padding=1)), 2), (image, filters)),
        (lambda a, w: nc.grad(lambda z: nc.sum(functional.conv2d(z, w, stride=2) ** 2))(a), (image, filters)),
        (lambda a, k: nc.cond(nc.sum(a) > 0, lambda s: s * 2, lambda s: s - 1, a), (x, n)),
        (lambda a: nc.while_loop(lambda s: nc.sum(s) < 10, lambda s: s + 1, a), (x,)),
        (lambda a: nc.scan(lambda c, r: (c + r, c * r), a[0], a), (x,)),
        (lambda k: nc.bitwise_xor(k << 2, k // 3) % 5 + nc.arange(4), (n,)),
        (lambda a: nc.einsum("ij,kj->ik", a, a).astype("float16").mean(axis=-1, keepdims=True), (x,)),
        (lambda a: functional.layer_norm(a, (6,)) + functional.gelu(a), (x,)),
        (lambda a: nc.permute_dims(nc.broadcast_to(nc.reshape(a, (2, 12, 1)), (2, 12, 3)), (2, 0, 1)), (x,)),
    ):
        yield stage(lambda *v, f=f: _listed(f(*v)), [v.type for v in given]).graph


def _listed(result: Any) -> list[Any]:

    return tree.flatten(result)[0]


# ---- how


def mutated_text(text: str, others: list[str], rng: random.Random) -> str:
    """A text with one to three of its words or lines changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.25:
            lines = text.split("\n")
            at, other = rng.randrange(len(lines)), rng.choice(others).split("\n")
            change = rng.randrange(4)
            if change == 0:
                del lines[at]
            elif change == 1:
                lines.insert(at, lines[rng.randrange(len(lines))])
            elif change == 2:
                lines[at] = rng.choice(other)
            else:
                to = rng.randrange(len(lines))
                lines[at], lines[to] = lines[to], lines[at]
            text = "\n".join(lines)
            continue
        words = list(TOKEN.finditer(text))
        if not words:
            return text
        at = rng.choice(words)
        pick, word = rng.random(), at[0]
        if pick < 0.25:
            new = rng.choice(NUMBERS)
        elif pick < 0.5:
            new = rng.choice(words)[0]
        elif pick < 0.65:
            new = rng.choice(list(TOKEN.finditer(rng.choice(others))))[0]
        elif pick < 0.75:
            new = f"{word}, {rng.choice(words)[0]}"
        elif pick < 0.85:
            new = ""
        elif pick < 0.92:
            new = word + word
        else:
            new = word[:-1] + chr(rng.choice((0, 9, 32, 34, 92, 955, 0x1F600, rng.randrange(33, 127))))
        text = text[: at.start()] + new + text[at.end() :]
    return text


VALUES = (
    0, 1, -1, 2, 3, 5, -7, 64, 1 << 31, 1 << 62, 1 << 80, 0.5, float("nan"), True, False, None, "", "word", (), (0,),
    (1,), (1, 0), (0, 1, 2), (2, 3), ((), ()), ((0,), (1,)), (4, 6), (-1,), (1 << 40,), (0.5,), (None,), ("a",),
)  # fmt: skip


def changed_parameter(value: Any, rng: random.Random) -> Any:
    """Another value than a parameter's: of its kind, or of any."""
    pick = rng.random()
    if isinstance(value, tuple) and value and pick < 0.7:
        at = rng.randrange(len(value))
        change = rng.randrange(4)
        if change == 0:
            return value[:at] + value[at + 1 :]
        if change == 1:
            return value[:at] + (value[at], value[at]) + value[at + 1 :]
        return value[:at] + (changed_parameter(value[at], rng),) + value[at + 1 :]
    if isinstance(value, int) and pick < 0.6:
        return value + rng.choice((-2, -1, 1, 2, 10, 1 << 33))
    return rng.choice([*VALUES, *ALL[:3]])


def mutated_graph(graph: Any, rng: random.Random) -> Any:
    """A graph with one to three of its equations changed; what follows gets the types that its rules give."""
    made = Builder(graph.name)
    known: dict[Any, Any] = {}
    for v in graph.inputs:
        type = v.type
        if rng.random() < 0.1 and type.rank:
            shape = list(type.shape)
            shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 7))
            type = TensorType(tuple(shape), type.dtype)
        known[v] = made.input(type)
    chosen = {rng.randrange(max(1, len(graph.equations))) for _ in range(rng.choice((1, 1, 2, 3)))}
    for k, e in enumerate(graph.equations):
        primitive, params = e.primitive, dict(e.params)
        inputs = [known.get(a, a) for a in e.inputs]
        if k in chosen:
            pick = rng.random()
            if pick < 0.25 and inputs:
                at = rng.randrange(len(inputs) + 1)
                inputs[at : at + rng.choice((0, 0, 1))] = rng.sample([*known.values(), *inputs], rng.choice((0, 1, 2)))
            elif pick < 0.75 and params:
                name = rng.choice(sorted(params))
                if rng.random() < 0.1:
                    del params[name]
                elif isinstance(params[name], Graph):
                    params[name] = mutated_graph(params[name], rng)
                else:
                    params[name] = changed_parameter(params[name], rng)
            elif pick < 0.8:
                params[rng.choice(("axis", "axes", "shape", "extra", "value", "graph"))] = rng.choice(VALUES)
            else:
                primitive = rng.choice(sorted(registered().values(), key=str))
        try:
            outputs = made.add(primitive, inputs, params)
        except Exception:  # no type rule takes it: the equation stays as it was, if it still can
            outputs = made.add(e.primitive, [known.get(a, a) for a in e.inputs], e.params)
        for v, new in zip(e.outputs, outputs, strict=False):
            known[v] = new
    return made.finish([known.get(a, a) for a in graph.outputs])


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which some are changed, cut, put in or doubled."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, change = rng.randrange(len(made) + 1), rng.randrange(6)
        if change == 0:
            made[at : at + 1] = bytes([rng.randrange(256)])
        elif change == 1 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif change == 2:
            del made[at : at + rng.choice((1, 4, 100))]
        elif change == 3:
            made[at:at] = rng.randbytes(rng.choice((1, 8, 50)))
        elif change == 4:
            made[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), struct.pack("<q", 1 << 47), b"\x7f" + b"\xff" * 7))
        else:
            made[at:at] = made[max(0, at - 20) : at]
    return bytes(made)


# ---- kinds: each makes its corpus in a folder, and gives what runs one mutation


class _TooLarge(Exception):
    """The inputs of a program have more elements than are tried here."""


def given_to(program_inputs: Any) -> list[Any]:
    """Ones for the inputs of a program, the smallest sizes for symbolic axes; _TooLarge for too many."""
    sizes = {
        s.name: min(max(s.low, 2), s.high)
        for t in program_inputs
        for d in t.shape
        if not isinstance(d, int)
        for s in d.symbols()
    }
    made: list[Any] = []
    for t in program_inputs:
        shape = tuple(evaluate(d, sizes) for d in t.shape)
        count = 1
        for size in shape:
            count *= size
        if count > MOST or count < 0:
            raise _TooLarge
        made.append(nc.ones(shape, dtype=t.dtype))
    return made


def run_graph(graph: Any) -> None:
    """Verify, compile and run a graph, where its inputs are small."""
    graph.verify()
    assert parse(print_graph(graph)) == graph, "the text of a graph that loads is that graph's"
    with contextlib.suppress(_TooLarge):
        given = given_to(graph.input_types)
        if " while(" in str(graph):  # it need not end
            EXECUTOR.program(graph)
            return
        with nc.no_grad():
            for result in EXECUTOR.execute(graph, given):
                nc.asarray(result).numpy()


def program(folder: Path) -> Callable[[random.Random], None]:
    """The texts of graphs: parsed, verified, compiled, run."""
    held = list(graphs())
    texts = [print_graph(g) for g in held]
    for text in texts:
        run_graph(parse(text))

    def attack(rng: random.Random) -> None:
        """One text: of a graph that is changed, or itself changed."""
        text = ""
        while not text:
            if rng.random() < 0.4:
                text = mutated_text(rng.choice(texts), texts, rng)
                continue
            with contextlib.suppress(Exception):  # no such graph can be written down
                text = print_graph(mutated_graph(rng.choice(held), rng))
        run_graph(parse(text))

    return attack


def named_graphs() -> Iterator[Any]:
    """Graphs with named values: one traced, with a loop and a branch; one of placeholders, with a symbolic size."""

    def f(x: Any, n: Any) -> Any:
        looped = nc.name(nc.scan(lambda c, r: (c + r, c * r), x[0], x)[0], "looped")
        return {"taken": looped[n], "either": nc.name(nc.cond(nc.sum(x) > 0, nc.exp, nc.sin, x), "either")}

    yield nc.Graph.trace(f, nc.ones((4, 3)), nc.tensor([0, 2]))
    x = nc.placeholder((nc.Dim("rows", max=8), 3), name="x")
    hidden = nc.name(nc.tanh(x @ nc.reshape(nc.arange(6.0), (3, 2))), "hidden")
    yield nc.Graph.build(x, (nn.functional.softmax(hidden), nc.name(nc.sum(hidden, axis=1), "total")))


def frozen(folder: Path) -> Callable[[random.Random], None]:
    """Files of saved programs: their bytes, their metadata, their text."""
    models = [
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), (2, 3)),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), (1, 1, 5, 5)),
    ]
    held: list[tuple[bytes, dict[str, str], dict[str, Any]]] = []
    path = folder / "frozen.safetensors"
    sizes = {"x": {0: nc.Dim("batch", max=8)}}
    saved = [nc.Graph.trace(model.eval(), nc.ones(shape), dynamic_shapes=sizes) for model, shape in models]
    for program in (*saved, *named_graphs()):
        nc.save_program(program, path)
        with opened(path) as file:
            held.append((path.read_bytes(), file.metadata, nc.load(path)))
    texts = [metadata["graph"] for _, metadata, _ in held]

    def attack(rng: random.Random) -> None:
        """One file."""
        data, metadata, weights = rng.choice(held)
        if rng.random() < 0.4:
            path.write_bytes(mutated_bytes(data, rng))
        else:
            name = rng.choice(list(metadata) + ["graph"] * 6)
            changed = mutated_text(metadata[name], texts, rng).encode(errors="replace").decode()
            if name == "graph" and rng.random() < 0.6:
                with contextlib.suppress(Exception):  # no such graph can be written down
                    changed = print_graph(mutated_graph(parse(metadata[name]), rng))
            nc.save(weights, path, metadata | {name: changed})
        loaded = nc.load_program(path)
        with contextlib.suppress(_TooLarge):
            inputs = given_to(loaded.input_types)
            loaded(*inputs)
            if loaded.named:
                loaded.run(dict(zip(loaded.inputs, inputs, strict=True)), rng.choice(sorted(loaded.named)))
                loaded.optimize()(*inputs)

    return attack


def safetensors(folder: Path) -> Callable[[random.Random], None]:
    """Files of tensors: their bytes, and headers that are still JSON."""
    path = folder / "tensors.safetensors"
    nc.save(
        {"a": nc.ones((2, 3)), "b": nc.arange(5), "c": nc.tensor([True, False]), "d": nc.zeros((0, 4))},
        path,
        {"words": "here"},
    )
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + length].decode(), data[8 + length :]

    def attack(rng: random.Random) -> None:
        """One file."""
        if rng.random() < 0.4:
            path.write_bytes(mutated_bytes(data, rng))
        else:
            text = mutated_text(header, [header], rng).encode(errors="replace")
            path.write_bytes(len(text).to_bytes(8, "little") + text + rest)
        for tensor in nc.load(path).values():
            if tensor.size < MOST:
                (tensor == tensor).numpy()

    return attack


def checkpoint(folder: Path) -> Callable[[random.Random], None]:
    """Checkpoints: any file of them, also with sums that are right."""
    state = {"epoch": 3, "rates": (0.5, float("inf")), "moments": {"w": nc.ones(3)}, "names": ["a", None, True]}
    whole = train.Checkpoints(folder / "checkpoints").save(7, {"w": nc.ones((2, 2))}, state)
    files = {p.name: p.read_bytes() for p in whole.iterdir()}

    def attack(rng: random.Random) -> None:
        """One checkpoint."""
        name = rng.choice(sorted(files))
        if name.endswith(".json") and rng.random() < 0.7:
            text = files[name].decode()
            data = mutated_text(text, [text], rng).encode(errors="replace")
        else:
            data = mutated_bytes(files[name], rng)
        for each, old in files.items():
            (whole / each).write_bytes(data if each == name else old)
        if name != "checkpoint.json" and rng.random() < 0.8:
            manifest = json.loads(files["checkpoint.json"])
            manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            (whole / "checkpoint.json").write_text(json.dumps(manifest), encoding="utf-8")
        train.read(whole)

    return attack


def changed_within(document: Any, rng: random.Random) -> Any:
    """A JSON document with one of its values replaced by another, taken away, or there twice."""
    if not isinstance(document, list | dict) or not document or rng.random() < 0.12:
        return rng.choice(VALUES)
    found: Any = document.copy()
    key = rng.choice(sorted(found)) if isinstance(found, dict) else rng.randrange(len(found))
    kind = rng.random()
    if kind < 0.04:
        del found[key]
    elif kind < 0.08 and isinstance(found, list):
        found.insert(key, found[key])
    else:
        found[key] = changed_within(found[key], rng)
    return found


def training(folder: Path) -> Callable[[random.Random], None]:
    """Checkpoints whose sums are right but whose state is not what a trainer writes, resumed to the end."""
    x = nc.reshape(nc.arange(24.0), (12, 2)) / 24
    rows = data.TensorDataset(x, nc.sum(x, axis=1, keepdims=True))
    whole, out = folder / "whole", folder / "out"

    def made(where: Path, epochs: int, save_every: int | None) -> None:
        nc.random.seed(0)
        model = nn.Linear(2, 1)
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        schedules = [optim.StepLR(optimizer, 2), optim.ReduceLROnPlateau(optimizer)]
        trainer = train.Trainer(
            model,
            optimizer,
            nn.functional.mse_loss,
            schedule=schedules,
            out=where,
            jit=False,
            early_stopping=train.EarlyStopping(9),
            save_every=save_every,
            keep=9,
            progress=False,
        )
        loader = data.DataLoader(rows, batch_size=4, shuffle=True, seed=1)
        trainer.fit(loader, loader, epochs, resume=True)

    shutil.rmtree(whole, ignore_errors=True)
    made(whole, 3, 1)
    steps = [p.name for p in train.Checkpoints(whole / "checkpoints").paths()[-3:]]

    def attack(rng: random.Random) -> None:
        """One checkpoint, in the middle of an epoch or after it."""
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(whole, out, symlinks=True)
        step = rng.choice(steps)
        for other in [p for p in (out / "checkpoints").iterdir() if p.name != step and not p.is_symlink()]:
            shutil.rmtree(other)
        place = out / "checkpoints" / step
        document = json.loads((place / "state.json").read_bytes())
        entries = document["state"]["dict"]
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(entries))
            entries[at] = [entries[at][0], changed_within(entries[at][1], rng)]
        text = json.dumps(document).encode()
        (place / "state.json").write_bytes(text)
        manifest = json.loads((place / "checkpoint.json").read_bytes())
        manifest["files"]["state.json"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        (place / "checkpoint.json").write_text(json.dumps(manifest), encoding="utf-8")
        made(out, 4, None)

    return attack


def npy(folder: Path) -> Callable[[random.Random], None]:
    """Arrays that a deployed executable reads: it ends, by itself, with a word about what is wrong."""
    made = deploy.compile(
        lambda x: nc.exp(x) * 2, [nc.ones((2, 3))], folder / "twice", dynamic_shapes={"x": {0: nc.Dim("n", max=64)}}
    )
    path, out = folder / "x.npy", folder / "y.npy"
    np.save(path, np.ones((2, 3), np.float32))
    data = path.read_bytes()

    def attack(rng: random.Random) -> None:
        """One array."""
        if rng.random() < 0.5:
            path.write_bytes(mutated_bytes(data, rng))
        else:
            header = mutated_text(data[10:128].decode("latin-1"), ["{'descr': '<f8', 'shape': (2, 3, 4), }"], rng)
            text = header.encode("latin-1", "replace")
            path.write_bytes(data[:8] + struct.pack("<H", len(text) & 0xFFFF) + text + data[128:])
        done = subprocess.run([made.path, path, out], capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0 or (done.returncode > 0 and len(done.stderr) > 10), (done.returncode, done.stderr)

    return attack


def cache(folder: Path) -> Callable[[random.Random], None]:
    """The user's own code cache, damaged: what is run is what was written, or is made anew."""
    place = folder / "cache"
    shutil.rmtree(place, ignore_errors=True)
    x = nc.arange(6.0)
    graph = stage(lambda v: [nc.exp(v) * 3 + nc.sum(v)], [x.type]).graph

    def fresh() -> Any:
        """Compile, or read, the program as a new process would, and run it."""
        objects._shared = objects.ObjectCache(objects.DiskCache(place))  # type: ignore[reportPrivateUsage]
        stored._disk.cache_clear()  # type: ignore[reportPrivateUsage]
        tunables.best.cache_clear()
        (buffer,) = stored.program(graph).run([x.content.address], {})
        return bytes(buffer.view(24)) if hasattr(buffer, "view") else _bytes(buffer.address, 24)

    wanted = fresh()
    tunables.keep({"a choice": 3})
    files = {p: p.read_bytes() for p in place.rglob("*") if p.is_file() and p.suffix in (".o", ".json")}

    def attack(rng: random.Random) -> None:
        """One or two files."""
        for path in rng.sample(sorted(files), rng.choice((1, 1, 2))):
            kind = rng.random()
            with contextlib.suppress(IsADirectoryError):
                path.unlink(missing_ok=True)
            if kind < 0.85:
                path.write_bytes(mutated_bytes(files[path], rng))
                path.chmod(rng.choice((0o600, 0o600, 0o600, 0o666)))
            elif kind < 0.9:
                path.symlink_to(rng.choice(sorted(files)))
            elif kind < 0.95:
                os.mkfifo(path)
        assert fresh() == wanted, "another program ran"
        tunables.choose("a choice", (1, 2, 3))
        for path, old in files.items():
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            path.write_bytes(old)
            path.chmod(0o600)

    return attack


def _bytes(address: int, count: int) -> bytes:

    return ctypes.string_at(address, count)


KINDS: dict[str, Callable[[Path], Callable[[random.Random], None]]] = {
    "program": program, "frozen": frozen, "safetensors": safetensors, "checkpoint": checkpoint,
    "training": training, "npy": npy, "cache": cache,
}  # fmt: skip


# ---- running them


def work(kind: str, folder: Path, seed: int, first: int, last: int) -> None:
    """Run the mutations of a kind from `first` to `last`, and note what came of each."""
    warnings.simplefilter("ignore")
    nc.set_memory_limit(1 << 30)
    folder.mkdir(parents=True, exist_ok=True)
    attack = KINDS[kind](folder)

    def late(*_: object) -> None:
        """The time of a mutation is over."""
        raise Hang

    signal.signal(signal.SIGALRM, late)
    with open(folder / f"{kind}.log", "a", encoding="utf-8", buffering=1) as log:
        for number in range(first, last):
            log.write(f"{number} begun\n")
            outcome = "taken"
            try:
                signal.alarm(PATIENCE)
                attack(random.Random(f"{seed} {kind} {number}"))
            except nc.Error:
                outcome = "refused"
            except BaseException as fault:
                shown = [f for f in traceback.extract_tb(fault.__traceback__) if f.name != late.__name__][-1]
                place = f"{Path(shown.filename).name}:{shown.lineno}"
                outcome = f"FAULT {type(fault).__name__}: {str(fault)[:200]!r} at {place}"
                if isinstance(fault, KeyboardInterrupt):
                    raise
            finally:
                signal.alarm(0)
            log.write(f"{number} {outcome}\n")


def outcomes(log: Path) -> dict[int, str]:
    """What came of each mutation so far; "begun" for one that never ended."""
    found: dict[int, str] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        number, _, outcome = line.partition(" ")
        found[int(number)] = outcome
    return found


def run(kind: str, folder: Path, seed: int, count: int) -> Counter[str]:
    """Run mutations of a kind in processes of their own; how many had each outcome, faults by their words."""
    log = folder / f"{kind}.log"
    folder.mkdir(parents=True, exist_ok=True)
    while len(found := outcomes(log)) < count:
        line = [
            sys.executable,
            __file__,
            "--work",
            kind,
            "--into",
            str(folder),
            "--seed",
            str(seed),
            "--first",
            str(len(found)),
            "--last",
            str(min(count, len(found) + 1000)),
        ]
        with open(folder / f"{kind}.stderr", "wb") as said:
            kept = {"NACRE_CACHE_DIR": str(folder / "kernels"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            process = subprocess.Popen(line, stderr=said, env={**os.environ, **kept})
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(2)
                begun = said_at(process)
                noted = log.stat().st_mtime if log.exists() else 0
                if time.time() - max(noted, begun) > (3 * PATIENCE if noted > begun else FIRST):
                    process.kill()
        after = outcomes(log)
        if len(after) == len(found):
            told = (folder / f"{kind}.stderr").read_text(encoding="utf-8")
            raise RuntimeError(told or f"the process ended with {process.returncode} before its first mutation")
        last = max(after)
        if after[last] == "begun":
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{last} FAULT the process ended with {process.returncode}\n")
    return Counter(outcomes(log).values())


_begun: dict[int, float] = {}


def said_at(process: subprocess.Popen[bytes]) -> float:
    """When a process was first seen."""
    return _begun.setdefault(process.pid, time.time())


def main() -> int:
    """Run all kinds, each its share, and say what came of them; 1 where something did that may not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, required=True, help="where the run is kept, to go on with it")
    parser.add_argument("--count", type=int, default=sum(SHARES.values()), help="mutations of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--work", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.into, given.seed, given.first, given.last)
        return 0
    faults = 0
    for kind in given.kinds.split(","):
        begun = time.monotonic()
        found = run(kind, given.into, given.seed, SHARES[kind] * given.count // sum(SHARES.values()))
        wrong = sum(n for outcome, n in found.items() if outcome.startswith("FAULT"))
        print(
            f"{kind}: {sum(found.values())} mutations, {found['refused']} refused, {found['taken']} taken, "
            f"{wrong} faults, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        for outcome, number in found.most_common():
            if outcome.startswith("FAULT"):
                print(f"  {number} × {outcome}")
                faults += number
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
