"""Write PyTorch's results of the programs to `values.json`.

python tests/public/autograd/compiled/write_values.py        (where PyTorch is installed)
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint

sys.path.insert(0, str(Path(__file__).parent))
from programs import names, programs, result

OUT = Path(__file__).with_name("values.json")

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for name, text in programs().items():
        try:
            told[name] = result(name, text, names(torch, lambda f: f, Exception))
        finally:
            torch.set_grad_enabled(True)
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in told.items()) + "\n}\n")
    print(f"{OUT.name}: {len(told)} programs, PyTorch {torch.__version__}")
