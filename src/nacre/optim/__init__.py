"""Optimisers, learning-rate schedules and gradient clipping."""

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
from nacre.optim.lbfgs import (
    LBFGS,
)
from nacre.optim.optimiser import (
    SGD,
    Adam,
    AdamW,
    Optimizer,
    ParameterGroup,
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
