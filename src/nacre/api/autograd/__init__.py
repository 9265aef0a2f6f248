"""`nacre.autograd`: gradients of recorded computations, with PyTorch's names and arguments."""

from __future__ import annotations

from nacre.api.autograd import function as function
from nacre.api.autograd.function import Function as Function
from nacre.api.autograd.function import once_differentiable as once_differentiable
from nacre.api.autograd.sweeps import backward as backward
from nacre.api.autograd.sweeps import grad as grad
from nacre.base.boundary import publish_all

__all__ = [
    "Function",
    "backward",
    "grad",
    "once_differentiable",
]


def __dir__() -> list[str]:
    return __all__


publish_all(__name__, __all__)
