"""Write what PyTorch's optimisers and schedules give for `torch_cases.py` to `torch_values.json`.

    python tests/optim/write_torch_values.py        (where PyTorch is installed)
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import optim
from torch.optim import lr_scheduler

sys.path.insert(0, str(Path(__file__).parent))
import torch_cases as cases

OUT = Path(__file__).with_name("torch_values.json")


def parameter() -> Any:
    """The parameter all cases begin with."""
    return torch.nn.Parameter(torch.tensor(cases.START))


def walked(line: str) -> list[Any]:
    """The parameter after each step."""
    p = parameter()
    o = eval(line, {"optim": optim, "p": p})
    seen: list[Any] = []
    for g in cases.GRADIENTS:
        p.grad = torch.tensor(g)
        o.step()
        seen.append(p.detach().numpy().ravel().tolist())
    return seen


def scheduled(line: str) -> list[Any]:
    """The learning rate and the momentum before and after each step."""
    o = optim.SGD([parameter()], lr=0.2, momentum=0.5)
    schedule = eval(line, {"S": lr_scheduler, "o": o})
    seen: list[Any] = []
    for _ in range(cases.STEPS):
        seen.append([o.param_groups[0]["lr"], o.param_groups[0]["momentum"]])
        o.step()
        schedule.step()
    return seen


def reduced(line: str) -> list[Any]:
    """The learning rate after each measure."""
    o = optim.SGD([parameter()], lr=0.2)
    schedule = eval(line, {"S": lr_scheduler, "o": o})
    seen: list[Any] = []
    for measure in cases.MEASURES:
        schedule.step(measure)
        seen.append(o.param_groups[0]["lr"])
    return seen


def searched(line: str) -> list[Any]:
    """The parameter after each of three steps."""
    p = parameter()
    o = eval(line, {"optim": optim, "p": p})

    def closure() -> Any:
        """The loss and its gradient."""
        o.zero_grad()
        loss = cases.valley(p)
        loss.backward()
        return loss

    seen: list[Any] = []
    for _ in range(3):
        o.step(closure)
        seen.append(p.detach().numpy().ravel().tolist())
    return seen


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for evaluate, lines in ((walked, cases.OPTIMISERS), (scheduled, cases.SCHEDULES), (reduced, cases.PLATEAUS),
                            (searched, cases.SEARCHES)):  # fmt: skip
        told |= {line: evaluate(line) for line in lines}
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in told.items()) + "\n}\n")
    print(f"{OUT.name}: {len(told)} cases, {OUT.stat().st_size} bytes, PyTorch {torch.__version__}")
