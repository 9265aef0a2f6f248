"""Functions and modules against PyTorch's results: values, gradients, running statistics and names in state dicts.

`write_torch_values.py` wrote the expected numbers; PyTorch is not needed here.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.nn import functional as F

HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


CASES = load("torch_cases")
EXPECTED: dict[str, Any] = json.loads((HERE / "torch_values.json").read_text())


class Recording:
    """The names of `nacre.nn`; new modules get weights that depend on the parameters' names."""

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []

    def __getattr__(self, name: str) -> Any:
        kind = getattr(nn, name)
        if not isinstance(kind, type):
            return kind

        def made(*args: Any, **kwargs: Any) -> nn.Module:
            module = kind(*args, **kwargs).double()
            held = module.state_dict()
            module.load_state_dict({k: CASES.weight(k, v.shape, v.dtype.is_float) for k, v in held.items()})
            self.modules.append(module)
            return module

        return made


def tensor(text: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return nc.tensor(list(value))
    held = nc.tensor(value)
    return held.requires_grad_() if held.dtype.is_float and text[0] in "fu" else held


def check(told: list[Any], found: Any, what: str, tolerance: float = 1e-9) -> None:
    shape, sums = told
    array = found.numpy() if hasattr(found, "numpy") else np.asarray(found)
    assert list(array.shape) == shape, what
    bound = tolerance * max(1.0, float(np.abs(np.where(np.isfinite(array), array, 0)).sum()))
    np.testing.assert_allclose(CASES.probes(array), sums, rtol=tolerance, atol=bound, err_msg=what)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES.CASES, ids=lambda c: c[0])
def test_values_gradients_and_state_are_those_of_torch(case: Any) -> None:
    line, inputs = case
    wanted = EXPECTED[CASES.name(case)]
    names = {k: tensor(v, CASES.draw(k, v)) for k, v in inputs.items()}
    made = Recording()
    results = CASES.leaves(eval(line, {"nn": made, "F": F, **names}))
    assert len(results) == len(wanted["results"])
    for k, (r, told) in enumerate(zip(results, wanted["results"], strict=True)):
        check(told, r, f"result {k}")
    total: Any = sum(
        (r * nc.tensor(CASES.cotangent(k, r.shape))).sum() for k, r in enumerate(results) if r.dtype.is_float
    )
    if wanted["gradients"]:
        total.backward()
        found = {k: v.grad for k, v in names.items() if isinstance(v, nc.Tensor) and v.requires_grad}
        for n, module in enumerate(made.modules):
            found |= {f"{n}.{k}": p.grad for k, p in module.named_parameters()}
        present = {k: g for k, g in found.items() if g is not None}
        assert sorted(present) == sorted(wanted["gradients"])
        for k, told in wanted["gradients"].items():
            single = "ardsigmoid" in line  # PyTorch's derivative is 1/6 in float32
            check(told, present[k], f"gradient of {k}", 1e-7 if single else 1e-9)
    for n, module in enumerate(made.modules):
        assert sorted(module.state_dict()) == wanted["names"][n]
        for k, b in module.named_buffers():
            check(wanted["buffers"][f"{n}.{k}"], b, f"buffer {k}")


FUNCTIONS = [c for c in CASES.CASES if c[0].startswith("F.") and "= (" not in str(c[1])]


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.slow] * (k % 5 > 0)) for k, c in enumerate(FUNCTIONS)],
    ids=lambda c: c[0],
)  # fmt: skip
def test_compiled_bits_are_the_eager_ones(case: Any) -> None:
    line, inputs = case
    drawn = {k: CASES.draw(k, v) for k, v in inputs.items()}
    given = {k: nc.tensor(v.astype(np.float32) if v.dtype == np.float64 else v) for k, v in drawn.items()}
    code = compile(line, "case", "eval")

    def run(**names: Any) -> Any:
        return eval(code, {"nn": nn, "F": F, **names})

    for compiled, eager in zip(CASES.leaves(nc.jit(run)(**given)), CASES.leaves(run(**given)), strict=True):
        np.testing.assert_array_equal(compiled.numpy(), eager.numpy())


HALVES = [c for c in CASES.CASES if len(c[1]) == 1 and c[1].get("x") == "f 4 6" and c[0].startswith("F.")][::3]


@pytest.mark.parametrize("case", HALVES, ids=lambda c: c[0])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_compute_in_float32(case: Any, dtype: str) -> None:
    line, inputs = case
    code, x = compile(line, "case", "eval"), nc.tensor(CASES.draw("x", inputs["x"])).astype(dtype)
    found, wide = (eval(code, {"F": F, "x": v}) for v in (x, x.astype("float32")))
    assert found.dtype is x.dtype
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]  # the line itself may round too
    np.testing.assert_allclose(found.astype("float32").numpy(), wide.numpy(), rtol=2 * eps, atol=2 * eps)
