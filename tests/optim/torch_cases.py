"""Optimisers and schedules that PyTorch and Nacre both evaluate: lines of text with `optim`, `S` and a parameter."""

from __future__ import annotations

import numpy as np

START = np.random.default_rng(0).normal(size=(4, 3))
GRADIENTS = np.random.default_rng(1).normal(size=(9, 4, 3))
GRADIENTS[3, 0] = 0.0

OPTIMISERS = [
    "optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)",
    "optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True, maximize=True)",
    "optim.Adam([p], lr=0.1, betas=(0.8, 0.95), weight_decay=0.1)", "optim.Adam([p], lr=0.1, amsgrad=True)",
    "optim.AdamW([p], lr=0.1)", "optim.AdamW([p], lr=0.1, weight_decay=0.3, amsgrad=True, maximize=True)",
    "optim.Adagrad([p])", "optim.Adagrad([p], lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5)",
    "optim.RMSprop([p])", "optim.RMSprop([p], lr=0.05, alpha=0.9, momentum=0.7, centered=True, weight_decay=0.1)",
    "optim.Adadelta([p])", "optim.Adadelta([p], lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True)",
    "optim.Adamax([p])", "optim.Adamax([p], lr=0.1, betas=(0.8, 0.9), weight_decay=0.1)",
    "optim.NAdam([p])", "optim.NAdam([p], lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)",
    "optim.NAdam([p], lr=0.1, weight_decay=0.1, momentum_decay=0.05)",
    "optim.RAdam([p])", "optim.RAdam([p], lr=0.1, betas=(0.8, 0.9), weight_decay=0.1)",
    "optim.RAdam([p], lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True)",
]  # fmt: skip

# Walks of three parameters in two groups: late or missing gradients, and settings that change on the way.
SHAPES = [(4, 3), (5,), ()]
PRESENT = [(1, 0, 1), (1, 0, 1), (1, 1, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)]
WALK = [[np.random.default_rng([7, step, k]).normal(size=s) for k, s in enumerate(SHAPES)] for step in range(9)]
SAVED = 5  # the step after which the state is saved
WALKS = {
    "SGD(g, lr=0.1)": {3: {"weight_decay": 0.2}, 5: {"momentum": 0.8}, 6: {"nesterov": True}},
    "SGD(g, lr=0.1, momentum=0.9, maximize=True)": {3: {"momentum": 0.0}, 4: {"dampening": 0.4}, 5: {"momentum": 0.7}},
    "SGD(g, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)": {4: {"dampening": 0.0}, 6: {"maximize": True}},
    "Adam(g, lr=0.1)": {3: {"betas": (0.8, 0.9)}, 4: {"weight_decay": 0.3}, 6: {"eps": 0.1}},
    "Adam(g, lr=0.1, amsgrad=True, weight_decay=0.1)": {3: {"amsgrad": False}, 6: {"amsgrad": True}},
    "AdamW(g, lr=0.1, maximize=True)": {2: {"weight_decay": 0.4}, 5: {"lr": 0.02}, 6: {"maximize": False}},
    "Adagrad(g, lr=0.1, initial_accumulator_value=0.2)": {3: {"lr_decay": 0.5}, 5: {"weight_decay": 0.3}},
    "RMSprop(g, lr=0.05)": {2: {"alpha": 0.8}, 5: {"weight_decay": 0.2}},
    "RMSprop(g, lr=0.05, momentum=0.5, centered=True)": {3: {"momentum": 0.0}, 6: {"momentum": 0.9, "alpha": 0.7}},
    "Adadelta(g, lr=0.5, weight_decay=0.1)": {3: {"rho": 0.7}, 6: {"eps": 1e-3}},
    "Adamax(g, lr=0.1)": {3: {"betas": (0.8, 0.9)}, 5: {"weight_decay": 0.2}},
    "NAdam(g, lr=0.1)": {3: {"momentum_decay": 0.1}, 5: {"weight_decay": 0.2}, 6: {"decoupled_weight_decay": True}},
    "RAdam(g, lr=0.1, betas=(0.8, 0.9))": {3: {"weight_decay": 0.2}, 5: {"decoupled_weight_decay": True}},
    "RAdam(g, lr=0.1, betas=(0.8, 0.7), maximize=True)": {5: {"betas": (0.5, 0.6)}},
}

SCHEDULES = [
    "S.StepLR(o, 3, 0.5)", "S.MultiStepLR(o, [2, 5, 5, 9], gamma=0.3)", "S.ExponentialLR(o, 0.9)",
    "S.ConstantLR(o, 0.4, 4)", "S.LinearLR(o, 0.2, 0.9, 6)", "S.PolynomialLR(o, 8, 1.7)",
    "S.CosineAnnealingLR(o, 7, 0.01)", "S.CosineAnnealingWarmRestarts(o, 3)",
    "S.CosineAnnealingWarmRestarts(o, 2, 2, 0.01)", "S.LambdaLR(o, lambda k: 1 / (1 + k))",
    "S.MultiplicativeLR(o, lambda k: 1 - 0.1 / k)", "S.OneCycleLR(o, 1.0, total_steps=20)",
    "S.OneCycleLR(o, 1.0, epochs=4, steps_per_epoch=5, pct_start=0.4, anneal_strategy='linear', three_phase=True)",
    "S.CyclicLR(o, 0.01, 0.5, step_size_up=3, step_size_down=5, mode='triangular2')",
    "S.CyclicLR(o, 0.01, 0.5, step_size_up=4, mode='exp_range', gamma=0.9)",
    "S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=4), S.CosineAnnealingLR(o, 9), S.ExponentialLR(o, 0.5)], "
    "[4, 13])",
    "S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)])",
]  # fmt: skip
STEPS = 19

TOGETHER = [  # several schedules of one optimiser, each stepped in turn; HALVED is a step after which a hand halves
    "S.LinearLR(o, 0.1, total_iters=5), S.ExponentialLR(o, 0.9)",
    "S.ExponentialLR(o, 0.9), S.LinearLR(o, 0.1, 0.7, total_iters=5)",
    "S.LinearLR(o, 0.1, total_iters=5), S.CosineAnnealingLR(o, 8, 0.01)",
    "S.CosineAnnealingLR(o, 4, 0.01), S.ConstantLR(o, 0.5, 3)", "S.StepLR(o, 3, 0.5), S.StepLR(o, 4, 0.3)",
    "S.MultiStepLR(o, [2, 5], 0.3), S.PolynomialLR(o, 12, 1.7)",
    "S.MultiplicativeLR(o, lambda k: 1 - 0.1 / k), S.LinearLR(o, 0.5, total_iters=9)",
    "S.CosineAnnealingLR(o, 12), S.ReduceLROnPlateau(o, factor=0.5, patience=1)",
    "S.ReduceLROnPlateau(o, factor=0.5, patience=1), S.ExponentialLR(o, 0.9), S.LinearLR(o, 0.2, total_iters=4)",
    "S.ChainedScheduler([S.LinearLR(o, 0.1, total_iters=5), S.CosineAnnealingLR(o, 8, 0.01)]),",
    "S.ExponentialLR(o, 0.9),", "S.CosineAnnealingLR(o, 6, 0.01),", "S.StepLR(o, 3, 0.5),",
    "S.LinearLR(o, 0.2, total_iters=9),", "S.PolynomialLR(o, 9, 2.0),",
]  # fmt: skip
HALVED = 7

MEASURES = [3.0, 2.0, 2.1, 2.2, 1.9995, 2.3, 2.4, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
PLATEAUS = [
    "S.ReduceLROnPlateau(o, factor=0.5, patience=2)", "S.ReduceLROnPlateau(o, 'max', 0.3, 1, cooldown=2, min_lr=0.01)",
    "S.ReduceLROnPlateau(o, threshold=0.01, threshold_mode='abs', patience=1)",
]  # fmt: skip

SEARCHES = [
    "optim.LBFGS([p], lr=0.3, max_iter=5)",
    "optim.LBFGS([p], max_iter=8, history_size=3, line_search_fn='strong_wolfe')",
    "optim.LBFGS([p], lr=0.01, max_iter=6, line_search_fn='strong_wolfe')",
]
SAVED_SEARCHES = ["optim.LBFGS([p], lr=0.3, max_iter=5) saved after two steps"]


def valley(p):  # type: ignore[no-untyped-def]
    """Rosenbrock's function of all rows, whose minimum is in a curved valley."""
    return (100.0 * (p[:, 1:] - p[:, :-1] ** 2) ** 2 + (1.0 - p[:, :-1]) ** 2).sum()
