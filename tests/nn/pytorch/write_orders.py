"""Write the names and shapes of PyTorch's parameters and state, in its order, to `orders.json`.

python tests/nn/pytorch/write_orders.py        (where PyTorch is installed)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
import order_cases

OUT = Path(__file__).with_name("orders.json")

if __name__ == "__main__":
    told: dict[str, list[list[tuple[str, list[int]]]]] = {}
    for line in order_cases.CASES:
        module = eval(line, {"nn": nn, "T": torch.tensor})
        told[line] = [
            [(k, list(v.shape)) for k, v in held] for held in (module.named_parameters(), module.state_dict().items())
        ]
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in told.items()) + "\n}\n")
    print(f"{OUT.name}: {len(told)} modules, PyTorch {torch.__version__}")
