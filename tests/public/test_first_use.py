"""Any first use in a process works: every public name, every operator and method, every way to create a tensor.

Each case runs in a separate process, forked from one that has not imported Nacre (`first_use.py`).
"""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import nacre as nc
import surface
from nacre import nn
from nacre.api.tensor import BINARY, COMPARISONS, UNARY

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="cases are forked")
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
           "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">",
           "ge": ">=", "eq": "==", "ne": "!=", "neg": "-", "pos": "+", "invert": "~"}  # fmt: skip
WHOLE = {"and", "or", "xor", "lshift", "rshift", "invert"}  # operators of integers

# the first lines of a script, which create a float tensor x of shape [2, 2]
WAYS = {
    "load": "import nacre as nc\nx = nc.load('given.safetensors')['x']",
    "load from its module": "from nacre.formats.safetensors import load\nx = load('given.safetensors')['x']",
    "pickle": "import pickle\nx = pickle.load(open('given.pickle', 'rb'))",
    "state dict": "import pickle\nx = pickle.load(open('model.pickle', 'rb')).state_dict()['weight']",
    "program": "import nacre as nc\nx = nc.load_program('given.nacre')(nc.load('given.safetensors')['x'])",
    "loader": "import numpy as np\nfrom nacre import data\n"
              "x, = next(iter(data.DataLoader([(np.ones(2, 'f'),)] * 2, batch_size=2)))",
    "loader with processes": "import numpy as np\nfrom nacre.data import DataLoader\n"
                             "x, = next(iter(DataLoader([(np.ones(2, 'f'),)] * 2, batch_size=2, num_workers=1,\n"
                             "                          workers='processes')))",
    "collate": "import numpy as np\nfrom nacre.data.collate import to_tensors\nx = to_tensors(np.ones((2, 2), 'f'))",
    "layer": "from nacre.nn import Linear\nx = Linear(2, 2).weight.data",
    "parameter": "from nacre import nn\nx = nn.Parameter([[1.0, 2.0], [3.0, 4.0]])",
    "variable": "from nacre.trace.variable import Variable\nfrom nacre.interpret.evaluate import from_numpy\n"
                "import numpy as np\nx = Variable(from_numpy(np.ones((2, 2), 'f'))).value",
    "jit": "from nacre.transform.jit import jit\nimport numpy as np\nx = jit(lambda x: x)(np.ones((2, 2), 'f'))",
    "asarray": "import numpy as np\nimport nacre as nc\nx = nc.asarray(np.ones((2, 2), 'f'))",
}  # fmt: skip


GIVEN = {  # methods that need an argument, or a tensor of another kind
    "item": "x[0, 0].item()", "backward": "pass", "reshape": "x.reshape(4)", "permute": "x.permute(1, 0)",
    "astype": "x.astype('float64')", "squeeze": "x[:, None].squeeze(1)", "retain_grad": "pass",
    "transpose": "pass", "repeat": "pass", "view": "x.view(4)", "expand": "x.expand(3, 2, 2)",
}  # fmt: skip


def _uses() -> dict[str, str]:
    """The uses of x, by name."""
    made = {name: f"x {SYMBOLS[name]} x" for name, _ in (*BINARY, *COMPARISONS) if name not in WHOLE}
    made |= {f"{name} of whole numbers": f"k {SYMBOLS[name]} k" for name, _ in BINARY if name in WHOLE}
    made |= {
        f"{name} of a number": f"x {SYMBOLS[name]} 2.0"
        for name, _ in (*BINARY, *COMPARISONS)
        if name not in WHOLE | {"matmul"}
    }
    made |= {f"r{name}": f"2.0 {SYMBOLS[name]} x" for name, _ in BINARY if name not in WHOLE | {"matmul"}}
    made |= {name: f"{SYMBOLS[name]}{'k' if name in WHOLE else 'x'}" for name, _ in UNARY if name != "abs"}
    made |= {
        "index": "x[0]",
        "index by a tensor": "x[k]",
        "set": "y = x[0]; y[0] = 1.0",
        "abs": "abs(x)",
        "iterate": "list(x)",
        "contains": "1.0 in x",
        "text": "repr(x), str(x), f'{x}'",
        "number": "float(x[0, 0]), bool(x[0, 0] > 0), len(x)",
        "numpy": "__import__('numpy').asarray(x)",
        "copy": "__import__('copy').deepcopy(x)",
        "pickle": "__import__('pickle').dumps(x)",
        "backward": "y = x.data if hasattr(x, 'assign') else x; y.requires_grad_(); (y * y).sum().backward()",
    }
    for name, member in surface.METHODS.items():
        owner, _, word = name.rpartition(".")
        if owner == "nacre.Tensor" and word not in GIVEN:
            lacking = [
                p
                for p in inspect.signature(member).parameters.values()
                if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
            ][1:]
            if not lacking:
                made.setdefault(f".{word}", f"x.{word}()")
    return made | GIVEN


USES = _uses()


def _is_tried(way: str, use: str) -> bool:
    """Whether a case runs: all uses of two ways, and a quarter of the uses of others, a different one for each."""
    place = list(WAYS).index(way) + list(USES).index(use)
    return way in ("load", "pickle") or use == "add" or place % 4 == 0


CASES = [case for case in product(WAYS, USES) if _is_tried(*case)]
SAMPLE = {(way, "add") for way in WAYS} | {("load", use) for use in sorted(USES)[::8]} | {("pickle", "index")}
NAMED = sorted(name for name in surface.NAMES if name.count(".") <= 3)
IMPORTS = (
    "import nacre as nc\nimport numpy as np\nfrom nacre import data, deploy, nn, optim, train\nF = nn.functional\n"
)


class Fresh:
    """Runs pieces of code, each as the first action of a process."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("first_use.py"))],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
        )

    def __call__(self, code: str, before: str = "", examples: bool = False) -> str:
        """The error of a process whose first action is `before` and then `code`; empty if there is none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"before": before, "code": code, "examples": examples}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    folder = tmp_path_factory.mktemp("fresh")
    x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    nc.save({"x": x}, folder / "given.safetensors")
    nc.save_program(nc.freeze(lambda x: x * 1.0, x), folder / "given.nacre")
    for name, held in (("given", x), ("model", nn.Linear(2, 2))):
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(held))
    made = Fresh(folder)
    yield made
    made.end()


@pytest.mark.parametrize(
    ("way", "use"),
    [pytest.param(*case, id=" | ".join(case), marks=[] if case in SAMPLE else [pytest.mark.slow]) for case in CASES],
)
def test_a_tensor_works_as_the_first_use_of_a_process(fresh: Fresh, way: str, use: str) -> None:
    code = USES[use]
    if "k" in code:
        code = f"k = x.astype('int64') % 2; {code}"
    assert fresh(code, WAYS[way]) == ""


def _first(name: str) -> tuple[str, str, bool]:
    """The lines in which a script first names an object, the code that uses it, and whether that is examples."""
    held: Any = surface.NAMES[name]
    doc = vars(held).get("__doc__") if isinstance(held, type) else getattr(held, "__doc__", None)
    if name in surface.CALLABLES and ">>> " in (doc or ""):
        own = f"from {held.__module__} import {held.__name__}"  # the name in the examples of its module
        return IMPORTS + own * hasattr(sys.modules[held.__module__], held.__name__), doc or "", True
    module, _, word = name.rpartition(".")
    return f"from {module} import {word}", f"repr({word})", False


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if k % 48 == 0 else [pytest.mark.slow]) for k, n in enumerate(NAMED)]
)
def test_a_public_name_works_as_the_first_use_of_a_process(fresh: Fresh, name: str) -> None:
    before, code, examples = _first(name)
    if "arrow" in code or "parquet" in code:
        pytest.importorskip("pyarrow")
    assert fresh(code, before, examples) == ""


MODULES = sorted(
    module for module in {surface.NAMES[n].__module__ for n in surface.CALLABLES} if module.startswith("nacre.")
)


@pytest.mark.parametrize(
    "module", [pytest.param(m, marks=[] if k % 36 == 0 else [pytest.mark.slow]) for k, m in enumerate(MODULES)]
)
def test_a_module_works_as_the_first_import_of_a_process(fresh: Fresh, module: str) -> None:
    assert (
        fresh(
            "import pickle; x = pickle.load(open('given.pickle', 'rb')); x + x, x[0], x == x, x.sum()",
            f"import {module}",
        )
        == ""
    )
