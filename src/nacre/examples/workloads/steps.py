"""What a workload does with a network: a training step, or inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre import nn, optim
from nacre.api.settings import no_grad
from nacre.examples.workloads.workload import Made

F = nn.functional


def trained(model: nn.Module, loss_of: Callable[[Any, Any], Any], optimizer: optim.Optimizer, *given: Any) -> Made:
    """A training step for inputs and targets: loss, gradients, update."""

    def step(*given: Any) -> Any:
        *inputs, targets = given
        loss = loss_of(model(*inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, given


def inferred(model: nn.Module, *given: Any) -> Made:
    """The results for inputs."""
    return no_grad()(model.eval().__call__), given


def of_tokens(scores: Any, targets: Any) -> Any:
    """The mean loss over all tokens, for scores [N, T, vocabulary]."""
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))
