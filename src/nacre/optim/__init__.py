"""Optimisers, learning-rate schedules and gradient clipping."""

from nacre.optim.optimiser import SGD, Adam, AdamW, Optimizer, ParameterGroup
from nacre.optim.rate import (
    CosineAnnealingLR,
    LambdaLR,
    Schedule,
    StepLR,
    clip_grad_norm_,
    clip_grad_value_,
    warm_up,
)

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CosineAnnealingLR",
    "LambdaLR",
    "Optimizer",
    "ParameterGroup",
    "Schedule",
    "StepLR",
    "clip_grad_norm_",
    "clip_grad_value_",
    "warm_up",
]
