"""Why `backward` refuses: the errors of the tape, with what to write instead."""

from __future__ import annotations

from nacre.base.errors import GradientError, StateError, explain


def released() -> StateError:
    """The error for a sweep through nodes that an earlier one freed."""
    return StateError(
        explain(
            "backward: a recorded computation is required; this one was released by an earlier "
            "backward",
            "loss.backward()\nloss.backward()",
            "backward frees what was kept for it as it goes, so that memory is returned early.",
            "loss.backward(retain_graph=True)\nloss.backward()",
        )
    )


def overwritten(operation: str) -> GradientError:
    """The error for a sweep through a node that kept a tensor which `x[i] = v` changed since."""
    return GradientError(
        explain(
            f"backward: tensors as they were when {operation} used them are required; one of them was "
            "changed by `x[i] = v` since",
            "y = w * x\nx[0] = 0.0\ny.sum().backward()",
            "The gradient of an operation needs the numbers that it was given.",
            "y = w * x\nx = x * 1                              # another tensor, to be changed\n"
            "x[0] = 0.0\ny.sum().backward()",
        )
    )


def superseded() -> GradientError:
    """The error for a sweep from a result of a compiled function that overwrote what it was computed from."""
    return GradientError(
        explain(
            "backward: a result of a compiled function that leaves the variables it was computed from as they were is "
            "required; this function gave all of them other values",
            "@nc.jit\ndef step(x):\n    loss, gradients = nc.value_and_grad(error)(model, x)\n"
            "    update(model, gradients)\n    return loss\nstep(x).backward()",
            "The variables were updated in place, so what the gradient needs is gone.",
            "loss = nc.jit(error)(model, x)\nloss.backward()",
        )
    )


def followed() -> GradientError:
    """The error for a `backward` that comes to an input of a functional `vjp`."""
    return GradientError(
        explain(
            "backward: tensors that no grad, vjp or jacrev around follows are required; got one computed from what "
            "they differentiate with respect to",
            "def f(w):\n    (w ** 3).sum().backward()\n    return w.grad.sum()\nnc.grad(f)(w)",
            "Inside a function that is differentiated its arguments stand for others and have no `grad` to add to.",
            "def f(w):\n    return nc.grad(lambda w: (w ** 3).sum())(w).sum()\nnc.grad(f)(w)",
        )
    )
