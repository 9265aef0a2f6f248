"""The kernels of some workloads of `nacre bench` under the roofline of the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measured import machine, note

from nacre.cli.main import main
from nacre.inspect.ceilings import Ceilings
from nacre.inspect.profile import Profile, Row
from nacre.inspect.roofline import chart

BY_NAME = True
WORKLOADS = ("mlp", "convnet", "attention", "softmax", "matmul-1024")
KEPT = ("label", "dtype", "launches", "flops", "bytes", "seconds", "typical", "busy", "floor")


def collect() -> dict[str, Any]:
    """What `nacre bench` writes about the kernels, and the machine's limits."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "bench.json")
        with redirect_stdout(StringIO()):
            status = main(["bench", *WORKLOADS, "--json", str(path)])
        if status:
            raise SystemExit(f"roofline: nacre bench ended with status {status}")
        told = json.loads(path.read_text(encoding="utf-8"))
    kernels = {name: [{k: row[k] for k in KEPT} for row in w["kernels"]] for name, w in told["workloads"].items()}
    return {"machine": machine(), "ceilings": told["ceilings"], "kernels": kernels}


def draw(data: Mapping[str, Any]) -> str:
    """The roofs, and a circle for each kernel."""
    limits = Ceilings(**data["ceilings"])
    told = [
        Profile(name, tuple(Row(**row) for row in rows), sum(row["seconds"] for row in rows), 0, 0, 0, 0, 0, limits)
        for name, rows in data["kernels"].items()
    ]
    words = f"{note(data['machine'])}; a circle's area is the kernel's share of the time"
    return replace(chart(told), note=words).svg()
