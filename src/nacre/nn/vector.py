"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nacre.api.manipulation import concat
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import Tensor
from nacre.base.errors import ArgumentError, ShapeError
from nacre.trace.modes import gradients
from nacre.trace.value import stripped
from nacre.trace.variable import Variable


def _listed(operation: str, parameters: Iterable[Any]) -> list[Any]:
    listed = list(parameters)
    wrong = [type(p).__name__ for p in listed if not isinstance(p, Variable | Tensor)]
    if wrong or not listed:
        raise ArgumentError(f"{operation}: parameters are required; got {wrong[0] if wrong else 'none'}")
    return listed


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """The numbers of all parameters concatenated, [n].  Gradients flow through it.

    Raises ArgumentError without parameters.

    >>> nn.utils.parameters_to_vector([nn.Parameter([[1.0, 2.0]]), nn.Parameter(3.0)]).tolist()
    [1.0, 2.0, 3.0]
    """
    held: list[Any] = [as_tensor(p) for p in _listed("parameters_to_vector", parameters)]
    return concat([p.reshape(-1) for p in held])


def vector_to_parameters(vec: TensorLike, parameters: Iterable[Any]) -> None:
    """Assign the numbers of a vector [n] to parameters, in the order of `parameters_to_vector`.

    Raises ShapeError for a vector of another length; then nothing is changed.

    >>> p, q = nn.Parameter([[1.0, 2.0]]), nn.Parameter(3.0)
    >>> nn.utils.vector_to_parameters(nc.tensor([4.0, 5.0, 6.0]), [p, q]); p.tolist(), q.tolist()
    ([[4.0, 5.0]], 6.0)
    """
    held, listed = as_tensor(vec), _listed("vector_to_parameters", parameters)
    sizes = [int(p.type.size) for p in listed]
    if held.shape != (sum(sizes),):
        raise ShapeError(
            f"vector_to_parameters: the vector must have {sum(sizes)} numbers; got shape {list(held.shape)}"
        )
    at = 0
    with gradients(False):
        for p, size in zip(listed, sizes, strict=True):
            p.assign(stripped(as_tensor(held[at : at + size].reshape(p.shape), p.dtype)))
            at += size
