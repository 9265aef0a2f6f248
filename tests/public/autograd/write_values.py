"""Write PyTorch's results of the programs to `values.json`.

python tests/public/autograd/write_values.py        (where PyTorch is installed)
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from autograd_programs import PROGRAMS

OUT = Path(__file__).with_name("values.json")


def leaf(data: Any) -> Any:
    return torch.tensor(data, requires_grad=True)


def raises(f: Any) -> bool:
    try:
        f()
    except Exception:
        return True
    return False


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for name, text in PROGRAMS.items():
        names: dict[str, Any] = {"t": torch, "leaf": leaf, "raises": raises}
        try:
            exec(compile(text, name, "exec"), names)
            told[name] = names["out"]
        finally:
            torch.set_grad_enabled(True)
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in told.items()) + "\n}\n")
    print(f"{OUT.name}: {len(told)} programs, PyTorch {torch.__version__}")
