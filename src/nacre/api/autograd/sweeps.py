"""Backward passes from several tensors, and gradients that are returned and not accumulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.autograd.methods import seed_of, tracked_values
from nacre.base.errors import ArgumentError, GradientError
from nacre.interpret.backward import backward as accumulate
from nacre.interpret.backward import gradients_of
from nacre.ops.pointwise import zeros_like
from nacre.trace.value import Value

Gradients = Any  # a tensor or None, or a sequence of them


def backward(
    tensors: Any,
    grad_tensors: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    inputs: Any = None,
) -> None:
    """Add the gradients of tensors to the `grad` of the leaves that they were computed from, in one backward pass.

    `grad_tensors` are their cotangents, each with its tensor's type; None is allowed for a tensor of one element.  The
    other arguments are those of `Tensor.backward`.

    >>> x = nc.tensor(3.0).requires_grad_()
    >>> nc.autograd.backward([x * x, x * 10])
    >>> x.grad.item()
    16.0
    """
    outputs = tracked_values("backward", tensors)
    accumulate(
        outputs,
        _seeds("backward", outputs, grad_tensors),
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=None if inputs is None else tracked_values("backward", inputs),
    )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of the sum of outputs with respect to inputs, as a tuple; the `grad` of leaves is unchanged.

    Inputs are leaves, parameters, or results on the way.  `grad_outputs` are the cotangents of the outputs, each with
    its output's type; None is allowed for an output of one element.  Only the operations between outputs and inputs are
    computed, and released unless `retain_graph`, whose default is `create_graph`.  `create_graph` records the backward
    pass, so that the gradients can be differentiated.  An input without influence has the gradient None with
    `allow_unused`, zeros with `materialize_grads`, and otherwise raises GradientError.

    `nacre.grad(f)` is another function: it differentiates a function, also inside `jit` and `vmap`.

    >>> x = nc.tensor(3.0).requires_grad_()
    >>> (g,) = nc.autograd.grad(x * x * x, x, create_graph=True)
    >>> g.item(), nc.autograd.grad(g, x)[0].item()
    (27.0, 18.0)
    """
    if materialize_grads and allow_unused is False:
        raise ArgumentError("grad: allow_unused must not be False with materialize_grads; leave it out")
    held, given = tracked_values("grad", outputs), tracked_values("grad", inputs)
    found = gradients_of(
        held,
        _seeds("grad", held, grad_outputs),
        given,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
    )
    for k, (x, g) in enumerate(zip(given, found, strict=True)):
        if g is None and materialize_grads:
            found[k] = zeros_like(x)
        elif g is None and not allow_unused:
            raise GradientError(
                f"grad: the outputs must depend on every input; got input {k} of type {x.type}, on which none depends; "
                "write allow_unused=True for None as its gradient, or materialize_grads=True for zeros"
            )
    return tuple(found)


def _seeds(operation: str, outputs: Sequence[Value], given: Gradients) -> list[Value]:
    if isinstance(given, Value) or given is None:
        given = [given] * (len(outputs) if given is None else 1)
    if len(given) != len(outputs):
        raise ArgumentError(f"{operation}: each output needs a cotangent; got {len(given)} for {len(outputs)} outputs")
    return [seed_of(operation, y, g) for y, g in zip(outputs, given, strict=True)]
