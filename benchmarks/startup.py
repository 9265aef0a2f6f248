"""Start-up side by side: installed size, time to a first tensor, and to a first compiled result, in fresh processes.

    python3 run.py bench startup                                    # Nacre
    python3 run.py bench startup --peers path/to/python             # and what that Python has of torch and jax

Sizes are those of the package and everything it requires.  Times are the least of several runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence

ROUNDS = 3
SIZE = """
import re, sys
from importlib import metadata
seen, todo, total = set(), [sys.argv[1]], 0
while todo:
    name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
    if name in seen:
        continue
    seen.add(name)
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    total += sum(f.locate().stat().st_size for f in found.files or () if f.locate().is_file() and f.suffix != ".pyc")
    todo += [re.match(r"[\\w.-]+", r)[0] for r in found.requires or () if "extra ==" not in r]
print(total / 1e6)
"""
TIMED = "import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
IMPORT = {
    "nacre": "import nacre as nc\nnc.ones(3)",
    "torch": "import torch\ntorch.ones(3)",
    "jax": "import jax.numpy as jnp\njnp.ones(3)",
}
FIRST = {
    "nacre": "import nacre as nc\nnc.jit(lambda x: nc.sum(nc.tanh(x * 2 + 1)))(nc.ones(1000)).item()",
    "torch": "import torch\ntorch.compile(lambda x: torch.sum(torch.tanh(x * 2 + 1)))(torch.ones(1000)).item()",
    "jax": "import jax, jax.numpy as jnp\njax.jit(lambda x: jnp.sum(jnp.tanh(x * 2 + 1)))(jnp.ones(1000)).item()",
}


def output(python: str, code: str, *arguments: str) -> float | None:
    """The number that a fresh process prints; None where it fails."""
    with tempfile.TemporaryDirectory() as empty:  # no process finds code that another one compiled
        run = subprocess.run(
            [python, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": empty, "NACRE_CACHE_DIR": empty, "TMPDIR": empty},
        )
    return float(run.stdout.split()[-1]) if run.returncode == 0 else None


def least(python: str, code: str) -> str:
    """The least time of several fresh processes."""
    found = [output(python, TIMED.format(code=code)) for _ in range(ROUNDS)]
    times = [t for t in found if t is not None]
    return f"{min(times):.2f} s" if times else "failed"


def row(python: str, name: str) -> str | None:
    """A line of the table; None where the Python lacks the package."""
    if output(python, f"import {name}; print(0)") is None:
        return None
    size = output(python, SIZE, name)
    shown = "?" if size is None else f"{size:.0f} MB"
    return f"| {name} | {shown} | {least(python, IMPORT[name])} | {least(python, FIRST[name])} |"


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has torch or jax")
    given = parser.parse_args(arguments)
    wanted = [(sys.executable, "nacre")] + [(given.peers, name) for name in ("torch", "jax") if given.peers]
    print("| | installed | import and a first tensor | import and a first compiled result |\n|---|---|---|---|")
    for line in filter(None, (row(python, name) for python, name in wanted)):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
