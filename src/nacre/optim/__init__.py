"""Optimisers, learning-rate schedules and gradient clipping.

A name's module is loaded when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.base.lazy import listing, loader

HOMES = {
    "adaptive_moments": "Adam AdamW",
    "adaptive": "Adadelta Adagrad Adamax LAMB Lion NAdam RAdam RMSprop",
    "clip": "clip_grad_norm_ clip_grad_value_",
    "cycle": "ChainedScheduler CyclicLR OneCycleLR ReduceLROnPlateau SequentialLR",
    "pure": "FunctionalOptimizer functional",
    "group": "ParameterGroup",
    "lbfgs": "LBFGS",
    "loss_scaling": "GradScaler",
    "optimiser": "Optimizer",
    "rate": (
        "ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts ExponentialLR LambdaLR LinearLR MultiStepLR "
        "MultiplicativeLR PolynomialLR Schedule StepLR warm_up"
    ),
    "gradient_descent": "SGD",
}

__dir__ = listing(HOMES)

if TYPE_CHECKING:
    from nacre.optim.adaptive import *
    from nacre.optim.adaptive_moments import *
    from nacre.optim.clip import *
    from nacre.optim.cycle import *
    from nacre.optim.gradient_descent import *
    from nacre.optim.group import *
    from nacre.optim.lbfgs import *
    from nacre.optim.loss_scaling import *
    from nacre.optim.optimiser import *
    from nacre.optim.pure import *
    from nacre.optim.rate import *
else:
    __getattr__ = loader(__name__, HOMES)
