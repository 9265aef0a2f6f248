"""Write PyTorch's results for the cases of `torch_cases.py` to `torch_values.json`.

    python tests/nn/pytorch/write_torch_values.py        (where PyTorch is installed)

For each case the file holds the shapes of the results and of the gradients of all floating-point inputs and
parameters, each with two weighted sums of its numbers, computed in float64.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
import torch_cases

OUT = Path(__file__).with_name("torch_values.json")


def tensor(text: str, value: Any) -> Any:
    """An input as a PyTorch tensor."""
    if isinstance(value, tuple):
        return torch.tensor(value)
    held = torch.tensor(value)
    return held.requires_grad_() if held.is_floating_point() and text[0] in "fu" else held


class Recording:
    """The names of `torch.nn`; new modules get weights that depend on the parameters' names."""

    def __init__(self) -> None:
        self.modules: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        kind = getattr(nn, name)
        if not isinstance(kind, type):
            return kind

        def made(*args: Any, **kwargs: Any) -> Any:
            """The module with its weights, which is recorded."""
            module = kind(*args, **kwargs).double()
            for key, held in module.state_dict().items():
                held.copy_(torch.tensor(torch_cases.weight(key, tuple(held.shape), held.is_floating_point())))
            self.modules.append(module)
            return module

        return made


def described(array: Any) -> list[Any]:
    """A tensor's shape and probes."""
    return [list(array.shape), torch_cases.probes(array.detach().numpy())]


def evaluate(case: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """Results and gradients of one case."""
    line, inputs = case
    names = {k: tensor(v, torch_cases.draw(k, v)) for k, v in inputs.items()}
    made = Recording()
    found = eval(line, {"nn": made, "F": F, **names})
    results = torch_cases.leaves(found)
    total = sum(
        (r * torch.tensor(torch_cases.cotangent(k, tuple(r.shape)))).sum()
        for k, r in enumerate(results)
        if r.is_floating_point()
    )
    told: dict[str, Any] = {"results": [described(r) for r in results], "gradients": {}, "buffers": {}}
    if getattr(total, "requires_grad", False):
        total.backward()
        for k, v in names.items():
            if isinstance(v, torch.Tensor) and v.grad is not None:
                told["gradients"][k] = described(v.grad)
        for n, module in enumerate(made.modules):
            for k, p in module.named_parameters():
                if p.grad is not None:
                    told["gradients"][f"{n}.{k}"] = described(p.grad)
    for n, module in enumerate(made.modules):
        for k, b in module.named_buffers():
            told["buffers"][f"{n}.{k}"] = described(b)
    told["names"] = [sorted(m.state_dict()) for m in made.modules]
    return told


if __name__ == "__main__":
    torch.set_num_threads(1)
    values = {torch_cases.name(case): evaluate(case) for case in torch_cases.CASES}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in values.items())
    OUT.write_text(f"{{\n{lines}\n}}\n")
    print(f"{OUT.name}: {len(values)} cases, {OUT.stat().st_size} bytes, PyTorch {torch.__version__}")
