"""Equations and minima as differentiable functions: unlike `nacre.optim`, whose optimisers train, `optimize` solves.

A name's module is loaded when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.base.lazy import listing, loader

HOMES = {
    "fixed_points": "fixed_point",
    "linear": "linear_solve",
    "minima": "minimize",
    "roots": "root root_scalar",
    "solution": "Solution",
}

__dir__ = listing(HOMES)

if TYPE_CHECKING:
    from nacre.optimize.fixed_points import *
    from nacre.optimize.linear import *
    from nacre.optimize.minima import *
    from nacre.optimize.roots import *
    from nacre.optimize.solution import *
else:
    __getattr__ = loader(__name__, HOMES)
