"""Time against size of one function of pointwise operations: eager, and compiled to one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from measured import machine, note

import nacre as nc
from nacre.inspect.plot import Chart, Series
from nacre.inspect.timing import interleaved

BY_NAME = True
SIZES = tuple(10**k for k in range(1, 8))
ROUNDS, SECONDS = 7, 0.05


def gelu(x: nc.Tensor) -> nc.Tensor:
    """GELU by its approximation with tanh: eight pointwise operations."""
    return 0.5 * x * (1 + nc.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def collect() -> dict[str, Any]:
    """The least seconds of a call at each size, both ways in turn."""
    compiled = nc.jit(gelu)
    seconds: dict[str, list[float]] = {"eager": [], "compiled": []}
    for n in SIZES:
        x = nc.random.normal((n,))
        with nc.no_grad():
            taken = interleaved({"eager": lambda x=x: gelu(x), "compiled": lambda x=x: compiled(x)}, ROUNDS, SECONDS)
        for name, times in taken.items():
            seconds[name].append(times.least)
    return {"function": "gelu", "machine": machine(), "rounds": ROUNDS, "size": list(SIZES), "seconds": seconds}


def draw(data: Mapping[str, Any]) -> str:
    """Both lines."""
    lines = (
        Series(name, tuple((n, s * 1e6) for n, s in zip(data["size"], taken, strict=True)), radii=(2.5,) * len(taken))
        for name, taken in data["seconds"].items()
    )
    return Chart(
        "GELU: eager and compiled",
        "numbers in the tensor",
        "microseconds",
        tuple(lines),
        note=f"{note(data['machine'])}; least of {data['rounds']} rounds",
    ).svg()
