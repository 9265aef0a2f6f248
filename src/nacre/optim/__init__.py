"""Optimisers, learning-rate schedules and gradient clipping.

A name's module is loaded when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.base.lazy import loader

HOMES = {
    "adaptive": "Adadelta Adagrad Adamax LAMB Lion NAdam RAdam RMSprop",
    "clip": "clip_grad_norm_ clip_grad_value_",
    "cycle": "ChainedScheduler CyclicLR OneCycleLR ReduceLROnPlateau SequentialLR",
    "lbfgs": "LBFGS",
    "group": "ParameterGroup",
    "optimiser": "Adam AdamW Optimizer SGD",
    "rate": (
        "ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts ExponentialLR LambdaLR LinearLR MultiStepLR "
        "MultiplicativeLR PolynomialLR Schedule StepLR warm_up"
    ),
}

__getattr__ = loader(__name__, HOMES)

if TYPE_CHECKING:
    from nacre.optim.adaptive import (
        LAMB,
        Adadelta,
        Adagrad,
        Adamax,
        Lion,
        NAdam,
        RAdam,
        RMSprop,
    )
    from nacre.optim.clip import (
        clip_grad_norm_,
        clip_grad_value_,
    )
    from nacre.optim.cycle import (
        ChainedScheduler,
        CyclicLR,
        OneCycleLR,
        ReduceLROnPlateau,
        SequentialLR,
    )
    from nacre.optim.group import (
        ParameterGroup,
    )
    from nacre.optim.lbfgs import (
        LBFGS,
    )
    from nacre.optim.optimiser import (
        SGD,
        Adam,
        AdamW,
        Optimizer,
    )
    from nacre.optim.rate import (
        ConstantLR,
        CosineAnnealingLR,
        CosineAnnealingWarmRestarts,
        ExponentialLR,
        LambdaLR,
        LinearLR,
        MultiplicativeLR,
        MultiStepLR,
        PolynomialLR,
        Schedule,
        StepLR,
        warm_up,
    )

__all__ = [
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "MultiStepLR",
    "MultiplicativeLR",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "ParameterGroup",
    "PolynomialLR",
    "RAdam",
    "RMSprop",
    "ReduceLROnPlateau",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "clip_grad_norm_",
    "clip_grad_value_",
    "warm_up",
]


def __dir__() -> list[str]:
    return __all__
