"""Write the results of PyTorch's optimisers and schedules for `torch_cases.py` to `torch_values.json`.

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


def wandered(line: str) -> list[Any]:
    """The state and the parameters half-way, and the parameters at the end."""
    held = [torch.nn.Parameter(torch.tensor(w)) for w in cases.WALK[-1]]
    o = eval(f"optim.{line}", {"optim": optim, "g": [{"params": held[:2]}, {"params": held[2:], "weight_decay": 0.5}]})
    seen: list[Any] = []
    for step, present in enumerate(cases.PRESENT):
        for group in o.param_groups:
            group.update(cases.WALKS[line].get(step, {}))
        for p, here, g in zip(held, present, cases.WALK[step], strict=True):
            p.grad = torch.tensor(g) if here else None
        o.step()
        if step == cases.SAVED:
            state = o.state_dict()["state"]
            seen.append({n: {k: v if v is None else v.tolist() for k, v in e.items()} for n, e in state.items()})
        if step in (cases.SAVED, len(cases.PRESENT) - 1):
            seen.append([p.tolist() for p in held])
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


def together(line: str) -> list[Any]:
    """The learning rates of two groups before and after each round of schedules; a hand changes one on the way."""
    o = optim.SGD([{"params": [parameter()]}, {"params": [parameter()], "lr": 0.5}], lr=0.2)
    schedules = eval(line, {"S": lr_scheduler, "o": o})
    seen: list[Any] = []
    for k, measure in enumerate(cases.MEASURES):
        seen.append([group["lr"] for group in o.param_groups])
        o.step()
        for schedule in schedules:
            schedule.step(*[measure] * isinstance(schedule, lr_scheduler.ReduceLROnPlateau))
        if k == cases.HALVED:
            o.param_groups[0]["lr"] *= 0.5
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


def searched_and_saved(line: str) -> list[Any]:
    """Settings, state and the parameter after two steps, and the parameter after the third."""
    p = parameter()
    o = eval(line.partition(" saved")[0], {"optim": optim, "p": p})

    def closure() -> Any:
        """The loss and its gradient."""
        o.zero_grad()
        loss = cases.valley(p)
        loss.backward()
        return loss

    def plain(x: Any) -> Any:
        """Tensors as lists."""
        return x.tolist() if isinstance(x, torch.Tensor) else [plain(v) for v in x] if isinstance(x, list) else x

    o.step(closure)
    o.step(closure)
    state = {k: plain(v) for k, v in o.state_dict()["state"][0].items() if k not in ("al", "ro")}
    seen = [o.state_dict()["param_groups"][0], state, p.tolist()]
    o.step(closure)
    return [*seen, p.tolist()]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for evaluate, lines in ((walked, cases.OPTIMISERS), (wandered, list(cases.WALKS)), (scheduled, cases.SCHEDULES),
                            (together, cases.TOGETHER), (reduced, cases.PLATEAUS), (searched, cases.SEARCHES),
                            (searched_and_saved, cases.SAVED_SEARCHES)):  # fmt: skip
        told |= {line: evaluate(line) for line in lines}
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in told.items()) + "\n}\n")
    print(f"{OUT.name}: {len(told)} cases, {OUT.stat().st_size} bytes, PyTorch {torch.__version__}")
