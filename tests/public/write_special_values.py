"""Write PyTorch's results for the cases of `special_cases.py` to `special_values.json`.

    python tests/public/write_special_values.py        (where PyTorch is installed)

For each case: the derivatives of the sum of the results by each array, and the derivatives of the sums of those by the
same arrays, null where PyTorch has none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parent))
import special_cases

OUT = Path(__file__).with_name("special_values.json")


class Names:
    """PyTorch's functions by the names that Nacre has for them."""

    OWN: ClassVar[dict[str, Any]] = {
        "max": lambda x, axis: torch.amax(x, axis),
        "min": lambda x, axis: torch.amin(x, axis),
        "logsumexp": lambda x, axis: torch.logsumexp(x, axis),
        "sort": lambda x: torch.sort(x)[0],
        "std": lambda x, axis, correction: torch.std(x, axis, correction=correction),
        "var": lambda x, axis, correction: torch.var(x, axis, correction=correction),
        "cumulative_sum": lambda x, axis: torch.cumsum(x, axis),
        "vecdot": torch.linalg.vecdot,
        "tensordot": lambda x, y, axes: torch.tensordot(x, y, axes),
        "cbrt": lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3),
        "fma": lambda x, y, z: x * y + z,
        "prod": lambda x, axis: torch.prod(x, axis),
        "clip": torch.clamp,
        "tensor": lambda x: torch.tensor(x, dtype=torch.float64 if "." in str(x) else None),
    }

    def __getattr__(self, name: str) -> Any:
        return self.OWN.get(name) or getattr(torch, name)


def total(case: special_cases.Case, x: Any) -> Any:
    """The weighted sum of a tensor."""
    return (x * torch.tensor(special_cases.weights(case, x.numel()), dtype=x.dtype).reshape(x.shape)).sum()


def derivatives(case: special_cases.Case) -> list[list[Any]]:
    """The first and the second derivatives."""
    xs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in case.at]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        y = eval(case.text, {"N": Names(), "F": functional}, dict(zip("xyz", xs, strict=False)))
    first = torch.autograd.grad(total(case, y), xs, create_graph=True, allow_unused=True)
    found: list[list[Any]] = [[None if g is None else g.tolist() for g in first], []]
    for g, x in zip(first, xs, strict=True):
        try:
            second = torch.autograd.grad(total(case, g), x, retain_graph=True, allow_unused=True)[0]
            found[1].append([0.0] if second is None else second.tolist())
        except (RuntimeError, NotImplementedError, AttributeError) as error:
            found[1].append([0.0] if "does not require grad" in str(error) else None)
    return found


if __name__ == "__main__":
    cases = [c for held in special_cases.CASES.values() for c in held]
    values: dict[str, Any] = {}
    for case in cases:
        values[case.name] = derivatives(case)
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(values.items()))
    OUT.write_text("{\n" + lines + "\n}\n")
