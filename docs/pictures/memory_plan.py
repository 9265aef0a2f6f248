"""The memory plan of a training step: which temporary lies where in the arena, and from which kernel to which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drawing import box, frame, text
from measured import machine

import nacre as nc
from nacre import examples, nn
from nacre.inspect.explain import explain
from nacre.inspect.plot import LIGHT, LinearAxis, document, footnote, heading

BY_NAME = False
BATCH = 64
STEP = re.compile(r"^ *(\d+) (.+?)  +(\w+\d.*|) <- (.*)$")
PLACED = re.compile(r"(temporary\d+) \((\d+) bytes (at|over) (\w+)\)")
KIB = 1024
LEFT, TOP, WIDE, HIGH = 70, 66, 468, 330


def collect() -> dict[str, Any]:
    """The plan of a compiled training step of the digits network, read from its text."""
    run = examples.load("digits").build(examples.Settings(0, 1, {"progress": False}))
    model, optimizer = run.trainer.model, run.trainer.optimizer

    def step(x: nc.Tensor, y: nc.Tensor) -> nc.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    plan = explain(step, nc.zeros((BATCH, 1, 8, 8)), nc.zeros((BATCH,), nc.int64)).plan
    labels: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    whole = asked = 0
    for line in plan.splitlines():
        row = STEP.match(line)
        for name, size, how, where in PLACED.findall(line) if row else ():
            if name not in found:
                asked += int(size)
                found[name] = (
                    found[where]
                    if how == "over" and where in found
                    else {"name": name, "bytes": int(size), "offset": int(where), "first": len(labels)}
                )
            found[name]["last"] = len(labels)
        if row:
            labels.append(row[2])
        elif line.startswith("arena:"):
            whole = int(line.split()[1])
    placed = list({id(v): v for v in found.values()}.values())
    return {
        "example": "digits",
        "batch": BATCH,
        "isa": machine()["instruction set"],
        "kernels": labels,
        "arena": whole,
        "temporaries": asked,
        "placed": placed,
    }


def draw(data: Mapping[str, Any]) -> str:
    """A rectangle for each temporary: across, the kernels from its first to its last; up, its bytes."""
    count, most = len(data["kernels"]), data["arena"] / KIB
    axis = LinearAxis.around((0, most))
    top = axis.last * axis.step
    body = [
        heading("Memory plan of a training step"),
        text(
            16,
            48,
            f"{len(data['placed'])} places hold {data['temporaries'] / KIB:,.0f} KiB of temporaries in an "
            f"arena of {most:,.0f} KiB",
            "faint",
        ),
    ]
    for k, v in enumerate(data["placed"]):
        x, wide = LEFT + v["first"] / count * WIDE, (v["last"] + 1 - v["first"]) / count * WIDE
        high = v["bytes"] / KIB / top * HIGH
        y = TOP + HIGH * (1 - v["offset"] / KIB / top) - high
        tip = (
            f"{v['name']}: {v['bytes']:,} bytes at {v['offset']:,}, from kernel {v['first']} "
            f"({data['kernels'][v['first']]}) to {v['last']} ({data['kernels'][v['last']]})"
        )
        body.append(box(x + 0.5, y, max(wide - 1, 1), max(high, 0.8), str(k % len(LIGHT)), 0.75, tip))
    every = max(1, round(count / 8))
    body += frame(
        LEFT,
        TOP,
        WIDE,
        HIGH,
        [((k + 0.5) / count, str(k)) for k in range(0, count, every)],
        [(axis.place(v), mark) for v, mark in axis.ticks()],
        ("kernel, in launch order", "place in the arena, KiB"),
    )
    body.append(
        footnote(
            f"The digits network, batch {data['batch']}: forward, backward and AdamW in {count} kernels.",
            TOP + HIGH + 64,
            LEFT,
        )
    )
    return document("Memory plan of a training step", LEFT + WIDE + 22, TOP + HIGH + 80, body)
