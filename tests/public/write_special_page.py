"""Write docs/special_points.md: derivatives at special points, here and in PyTorch, and why they differ.

    python tests/public/write_special_page.py

The numbers of PyTorch are those of `special_values.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import nacre as nc

sys.path.insert(0, str(Path(__file__).parent))
import special_cases
from special_cases import Case

TORCH: dict[str, Any] = json.loads(Path(__file__).with_name("special_values.json").read_text())
PAGE = Path(__file__).parents[2] / "docs" / "special_points.md"
Derivatives = tuple[list[np.ndarray], list[np.ndarray]]


def function(case: Case) -> Any:
    """The weighted sum of a case's results, as a function of its arrays."""
    return lambda *xs: total(
        case, eval(case.text, {"N": nc, "F": nc.nn.functional}, dict(zip("xyz", xs, strict=False)))
    )


def total(case: Case, x: Any) -> Any:
    """The weighted sum of a tensor."""
    return nc.sum(x * nc.tensor(special_cases.weights(case, x.size), dtype=nc.float64).reshape(x.shape))


def arrays(case: Case) -> list[Any]:
    """The points of a case."""
    return [nc.tensor(a, dtype=nc.float64) for a in case.at]


def gradients(case: Case) -> Any:
    """Derivatives by all arrays, as a tuple."""
    return nc.grad(function(case), argnums=tuple(range(len(case.at))))


def second(case: Case) -> Any:
    """The derivative of each derivative's weighted sum by the same array, as a tuple."""
    inner = gradients(case)

    def by(k: int, xs: tuple[Any, ...]) -> Any:
        return nc.grad(lambda x: total(case, inner(*xs[:k], x, *xs[k + 1 :])[k]))(xs[k])

    return lambda *xs: tuple(by(k, xs) for k in range(len(xs)))


def here(case: Case) -> Derivatives:
    """First and second derivatives in Nacre."""
    xs = arrays(case)
    return [g.numpy() for g in gradients(case)(*xs)], [g.numpy() for g in second(case)(*xs)]


def there(case: Case) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """First and second derivatives in PyTorch; None where it has none."""
    shapes = [np.shape(a) for a in case.at]
    first, then = (
        [None if g is None else np.broadcast_to(np.array(g, float), s) for g, s in zip(held, shapes, strict=True)]
        for held in TORCH[case.name]
    )
    return first, then


def same(a: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """The places where two derivatives agree, or PyTorch has none."""
    if b is None:
        return np.ones(a.shape, bool)
    with np.errstate(all="ignore"):
        near = np.isclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)
    return np.asarray(near)


# ---- the page

HEAD = """# Special points

This page shows users who check or port gradients which derivatives Nacre gives at special points, beside PyTorch's.

A special point is a kink, a bound, a tie or a pole.  The derivative there is a convention, or a limit that a formula
may miss.  This page covers every differentiable function, in float64.  These are the rules:

* A stable formula has the derivatives of the function it computes, of any order: `softplus` has slope 1/2 at 0.
* At a kink, the derivative lies between the derivatives of both sides.  It is PyTorch's, if that lies between them.
* A length of 0, or a deviation of 0, has slope 0.
* A branch that is not taken contributes nothing, even where its own derivative is NaN.
* Queries of attention whose keys are all masked give 0 and have derivative 0.
* `softmax` of a row of only −∞ is NaN.

How to read the tables:

* `N` is `nacre`, and `F` is `nacre.nn.functional`.
* `d` is the derivative of the sum of the results.
* `dd` is the derivative of the sum of `d`, by the same argument.
* `none` means that PyTorch has no such derivative.
* For functions of whole arrays, both sums have the weights 1, 1.5, 2 …, and only what differs from PyTorch is listed.
* Linear functions, and functions with integer results, are left out.

`python tests/public/write_special_page.py` writes this page.  A test checks that it is up to date.

## Differences from PyTorch

These functions differ from PyTorch at some of their points:

"""
TABLE = "| at | d | PyTorch | dd | PyTorch |\n|---|---|---|---|---|\n"


def number(x: float | None) -> str:
    """A number in few characters."""
    if x is None:
        return "none"
    return f"{x:.6g}".replace("inf", "∞").replace("-", "−").replace("nan", "NaN")


def elements(case: Case) -> list[str]:
    """A line for each point of a pointwise case and each of its arguments."""
    mine, other = here(case), there(case)
    points = list(zip(*case.at, strict=True))
    lines: list[str] = []
    for k in range(len(case.at)):
        by = f" by {'xyz'[k]}" if len(case.at) > 1 else ""
        for p, point in enumerate(points):
            cells = [", ".join(map(number, point)) + by]
            for a, b in zip((m[k] for m in mine), (o[k] for o in other), strict=True):
                cells += [number(float(a[p]) + 0.0), "none" if b is None else number(float(b[p]) + 0.0)]
            lines.append(f"| {' | '.join(cells)} |\n")
    return lines


def differing(case: Case) -> list[str]:
    """A line for each derivative of a case of whole arrays that differs from PyTorch's."""
    lines: list[str] = []
    for order, mine, other in zip(("d", "dd"), here(case), there(case), strict=True):
        for by, a, b in zip("xyz", mine, other, strict=False):
            if b is None or same(a, b).all():
                continue
            found, theirs = (" ".join(number(float(v) + 0.0) for v in np.ravel(x)) for x in (a, b))
            lines.append(f"* `{order}` by {by}: {found}; PyTorch: {theirs}\n")
    return lines


def shown(case: Case) -> str:
    """A case and its derivatives: a table of points, or a list of what differs."""
    if case.pointwise:
        return f"`{case.text}`\n\n{TABLE}{''.join(elements(case))}\n"
    at = ", ".join(f"{name} = {array}" for name, array in zip("xyz", case.at, strict=False))
    lines = differing(case)
    return f"`{case.text}` at {at}" + (f":\n\n{''.join(lines)}\n" if lines else ": same as PyTorch\n\n")


def differences() -> str:
    """Links to the functions whose derivatives differ from PyTorch's, by namespace."""
    names = [name.removeprefix("nacre.") for name in special_cases.CASES if name in special_cases.DIFFERENT]
    prefix = "nn.functional."
    spaces = {
        "tensor functions": [n for n in names if not n.startswith(prefix)],
        "`nn.functional`": [n for n in names if n.startswith(prefix)],
    }
    lines: list[str] = []
    for space, held in spaces.items():
        links = ", ".join(f"[{name.removeprefix(prefix)}](#{name.replace('.', '')})" for name in held)
        lines.append(f"* {space}: {links}\n")
    return "".join(lines)


def page() -> str:
    """The whole text."""
    parts = [HEAD, differences()]
    for name, cases in special_cases.CASES.items():
        parts.append(f"\n## {name.removeprefix('nacre.')}\n\n")
        if name in special_cases.DIFFERENT:
            parts.append(f"{special_cases.DIFFERENT[name]}\n\n")
        parts += [shown(case) for case in cases]
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
