"""Write the results of PyTorch's weight and spectral norms to `norm_values.json`.

python tests/nn/pytorch/write_norm_values.py        (where PyTorch is installed)
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import utils

OUT = Path(__file__).with_name("norm_values.json")
CASES = [
    "utils.weight_norm(nn.Linear(3, 2, dtype=D))", "utils.weight_norm(nn.Linear(3, 2, dtype=D), dim=1)",
    "utils.weight_norm(nn.Linear(3, 2, dtype=D), 'bias', None)", "utils.weight_norm(nn.Linear(3, 2, dtype=D), dim=-1)",
    "utils.weight_norm(nn.Conv1d(3, 2, 2, dtype=D))", "utils.spectral_norm(nn.Linear(3, 2, dtype=D))",
    "utils.spectral_norm(nn.Conv1d(3, 2, 2, dtype=D), n_power_iterations=3)",
    "utils.spectral_norm(nn.ConvTranspose1d(3, 2, 2, dtype=D))",
    "utils.weight_norm(utils.spectral_norm(nn.Linear(3, 2, dtype=D)), 'bias')",
]  # fmt: skip


def numbers(shape: Any, seed: int) -> Any:
    """The initial numbers of a tensor of the state."""
    return np.random.default_rng(seed).normal(size=tuple(shape))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for line in CASES:
        module = eval(line, {"nn": nn, "utils": utils, "D": torch.float64})
        module.load_state_dict(
            {k: torch.tensor(numbers(v.shape, n)) for n, (k, v) in enumerate(module.state_dict().items())}
        )
        x = torch.tensor(numbers((4, 3) if "Linear" in line else (4, 3, 5), 99))
        out = [module(x), module(x)][1]
        out.square().sum().backward()
        state = module.state_dict()
        module.eval()
        told[line] = {
            "out": out.flatten().tolist(),
            "still": module(x).flatten().tolist(),
            "state": {k: v.flatten().tolist() for k, v in state.items()},
            "gradients": {k: p.grad.flatten().tolist() for k, p in module.named_parameters()},
        }
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in told.items()) + "\n}\n")
    print(f"{OUT.name}: {len(told)} cases, PyTorch {torch.__version__}")
