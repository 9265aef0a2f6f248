"""Backward passes from several tensors, and gradients that are returned and not accumulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.api.autograd.methods import seed_of, tracked_values
from nacre.base.arguments import shown
from nacre.base.errors import ArgumentError, GradientError, ShapeError
from nacre.interpret.backward import backward as accumulate
from nacre.interpret.backward import gradients_of
from nacre.interpret.batch import batch, to_axis
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
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of the sum of outputs with respect to inputs, as a tuple; the `grad` of leaves is unchanged.

    Inputs are leaves, parameters, or results on the way.  `grad_outputs` are the cotangents of the outputs, each with
    its output's type; None is allowed for an output of one element.  Only the operations between outputs and inputs are
    computed, and released unless `retain_graph`, whose default is `create_graph`.  `create_graph` records the backward
    pass, so that the gradients can be differentiated.  An input without influence has the gradient None with
    `allow_unused`, zeros with `materialize_grads`, and otherwise raises GradientError.  With `is_grads_batched`, all
    `grad_outputs` have a batch axis in front, and so have the gradients: one pass gives a whole Jacobian.

    `only_inputs` is True, as PyTorch requires.

    `nacre.grad(f)` is another function: it differentiates a function, also inside `jit` and `vmap`.

    >>> x = nc.tensor(3.0).requires_grad_()
    >>> (g,) = nc.autograd.grad(x * x * x, x, create_graph=True)
    >>> g.item(), nc.autograd.grad(g, x)[0].item()
    (27.0, 18.0)
    """
    if only_inputs is not True:
        raise ArgumentError(
            f"grad: only_inputs must be True; got {shown(only_inputs)}; for the `grad` of all leaves write "
            "nacre.autograd.backward(outputs)"
        )
    if materialize_grads and allow_unused is False:
        raise ArgumentError("grad: allow_unused must not be False with materialize_grads; leave it out")
    held, given = tracked_values("grad", outputs), tracked_values("grad", inputs)
    retain = create_graph if retain_graph is None else retain_graph

    def pulled(seeds: Gradients) -> list[Value | None]:
        """The gradients for cotangents of the outputs."""
        return gradients_of(held, _seeds("grad", held, seeds), given, retain_graph=retain, create_graph=create_graph)

    found = _pulled_together(pulled, grad_outputs) if is_grads_batched else pulled(grad_outputs)
    for k, (x, g) in enumerate(zip(given, found, strict=True)):
        if g is None and materialize_grads:
            found[k] = zeros_like(x)
        elif g is None and not allow_unused:
            raise GradientError(
                f"grad: the outputs must depend on every input; got input {k} of type {x.type}, on which none depends; "
                "write allow_unused=True for None as its gradient, or materialize_grads=True for zeros"
            )
    return tuple(found)


def _pulled_together(pulled: Callable[[Gradients], list[Value | None]], given: Gradients) -> list[Value | None]:
    """The gradients for a batch of cotangents, by one pass over all of them."""
    seeds: list[Any] = [given] if isinstance(given, Value) else list(given or ())
    if not seeds or any(not isinstance(c, Value) or not c.type.shape for c in seeds):
        raise ArgumentError(
            "grad: with is_grads_batched, grad_outputs must be tensors with a batch axis in front; got "
            f"{', '.join(str(getattr(c, 'type', c)) for c in seeds) or 'none'}"
        )
    sizes = list(dict.fromkeys(c.type.shape[0] for c in seeds))
    if len(sizes) > 1:
        raise ShapeError(f"grad: the batch axes of grad_outputs must have one size; got {sizes}")
    there: list[bool] = []

    def flat(*cotangents: Value) -> list[Value]:
        """The gradients that exist."""
        found = pulled(cotangents)
        there[:] = [g is not None for g in found]
        return [g for g in found if g is not None]

    ys, axes = batch(flat, seeds, [0] * len(seeds), sizes[0])
    rest = (to_axis(y, a, 0, sizes[0]) for y, a in zip(ys, axes, strict=True))
    return [next(rest) if has else None for has in there]


def _seeds(operation: str, outputs: Sequence[Value], given: Gradients) -> list[Value]:
    if isinstance(given, Value) or given is None:
        given = [given] * (len(outputs) if given is None else 1)
    if len(given) != len(outputs):
        raise ArgumentError(f"{operation}: each output needs a cotangent; got {len(given)} for {len(outputs)} outputs")
    return [seed_of(operation, y, g) for y, g in zip(outputs, given, strict=True)]
