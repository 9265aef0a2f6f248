"""Errors of `backward`, with the code to write instead."""

from __future__ import annotations

from nacre.base.errors import GradientError, StateError, explain
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.trace.value import Value


def released() -> StateError:
    """The error for a backward pass through nodes that an earlier one freed."""
    return StateError(
        explain(
            "backward: the recorded computation is gone; it was released by an earlier backward",
            "loss.backward()\nloss.backward()",
            "backward frees the values that it has used, to return memory early.",
            "loss.backward(retain_graph=True)\nloss.backward()",
        )
    )


def overwritten(operation: str) -> GradientError:
    """The error for a backward pass through a node whose saved tensor was changed by `x[i] = v`."""
    return GradientError(
        explain(
            f"backward: tensors that {operation} used must not change before backward; one of them was "
            "changed by `x[i] = v`",
            "y = w * x\nx[0] = 0.0\ny.sum().backward()",
            "The gradient of an operation needs the operation's original operands.",
            "y = w * x\nx = x * 1                              # another tensor, to be changed\n"
            "x[0] = 0.0\ny.sum().backward()",
        )
    )


def variable_written() -> GradientError:
    """The error for `x[i] = v` of a variable's value."""
    return GradientError(
        "x[i] = v: x must not be the value of a variable that requires a gradient; write into the variable inside "
        "`with nacre.no_grad():`, as in `p[i] = v`, or assign to it"
    )


def leaf_written() -> GradientError:
    """The error for `x[i] = v` of a leaf while operations are recorded."""
    return GradientError(
        "x[i] = v: x must not be a leaf with requires_grad here; write it inside `with nacre.no_grad():`, or into "
        "`y = x * 1`, whose gradient reaches x"
    )


def record_lost(operation: str, variable: object, type: TensorType) -> GradientError:
    """The error for a variable that would store a value without the record that gradients need."""
    return GradientError(
        f"{operation}: the value must not require a gradient, because variable {variable} stores only numbers; got "
        f"one of type {type} that does; write value.detach(), or do it inside `with nacre.no_grad():`"
    )


def superseded() -> GradientError:
    """The error for a backward pass from a result of a compiled function that overwrote its inputs."""
    return GradientError(
        explain(
            "backward: the compiled function must not overwrite the variables that the result was computed from; "
            "this function assigned all of them",
            "@nc.jit\ndef step(x):\n    loss, gradients = nc.value_and_grad(error)(model, x)\n"
            "    update(model, gradients)\n    return loss\nstep(x).backward()",
            "The variables were updated in place, so the values that the gradient needs are gone.",
            "loss = nc.jit(error)(model, x)\nloss.backward()",
        )
    )


def unheard(what: str, name: str) -> GradientError:
    """The error for a hook in a traced function whose gradient only a later `backward` computes."""
    return GradientError(
        explain(
            f"{what}: compiled code ({name}) with hooks must also contain the backward pass that calls them; here a "
            "later backward would reach the tensor",
            "@nc.jit\ndef error(x):\n    h = layer(x)\n    h.register_hook(change)\n    return h.sum()\n"
            "error(x).backward()",
            "A call of compiled code is one operation for a backward pass outside of it, without tensors inside.",
            "@nc.jit\ndef step(x):\n    h = layer(x)\n    h.register_hook(change)\n    h.sum().backward()\nstep(x)",
        )
    )


def unheard_part(what: str, name: str) -> GradientError:
    """The error for a hook in a branch or loop of a traced function, or in a compiled function that it calls."""
    return GradientError(
        explain(
            f"{what}: a branch, a loop or a compiled function within compiled code ({name}) with hooks must also "
            "contain the backward pass that calls them; here a backward outside of it would reach the tensor",
            "@nc.jit\ndef step(x):\n    loss = nc.zeros(())\n    if x.sum() > 0:\n        h = layer(x)\n"
            "        h.register_hook(change)\n        loss = h.sum()\n    loss.backward()",
            "A branch or loop on traced values is one operation for a backward pass outside of it, without tensors\n"
            "  inside.  A module's backward hooks are hooks of its tensors.",
            "@nc.jit\ndef step(x):\n    h = layer(x)                            # outside of the branch\n"
            "    h.register_hook(change)\n    nc.where(x.sum() > 0, h.sum(), 0.0).backward()",
        )
    )


def followed() -> GradientError:
    """The error for a `backward` that reaches an input of a functional `vjp`."""
    return GradientError(
        explain(
            "backward: the tensor must not depend on arguments of an enclosing grad, vjp or jacrev; got one that "
            "depends on them",
            "def f(w):\n    (w ** 3).sum().backward()\n    return w.grad.sum()\nnc.grad(f)(w)",
            "Inside a differentiated function the arguments are placeholders without a `grad`.",
            "def f(w):\n    return nc.grad(lambda w: (w ** 3).sum())(w).sum()\nnc.grad(f)(w)",
        )
    )


def unrecorded(what: str) -> GradientError:
    """The error for a recorded backward pass that needs the derivative of values inside loops or branches."""
    return GradientError(
        explain(
            "backward: with create_graph, the gradient must not need inner values of a loop or branch that calls the "
            f"host, or residuals of a rule; got {what}",
            "y = nc.scan(step, x, xs)[0]          # step calls nc.host_call\n"
            "y.sum().backward(create_graph=True)\nx.grad.sum().backward()",
            "The tape keeps the numbers of the values inside, and not their derivatives.",
            "def total(x):\n    return nc.scan(step, x, xs)[0].sum()\nnc.grad(lambda x: nc.grad(total)(x).sum())(x)",
        )
    )


def refuse_sweep(name: str, x: Value) -> None:
    """Raise GradientError for a tensor from outside that `backward` inside a staged function would reach."""
    if x.node is None or not STATE.gradients or not x.type.dtype.is_differentiable:
        return
    raise GradientError(
        explain(
            f"backward: compiled code ({name}) can add gradients to variables only; it reached a tensor of type "
            f"{x.type} from outside with requires_grad",
            "x = nc.ones(3).requires_grad_()\n@nc.jit\ndef f():\n    (w * x).sum().backward()",
            "Inside nc.jit, nc.checkpoint and control flow only variables have a `grad` that `backward` can add to.",
            "x = nn.Parameter(nc.ones(3))       # or x.detach(), if its gradient is not needed\n"
            "@nc.jit\ndef f():\n    (w * x).sum().backward()",
        )
    )


def questioned(name: str, type: TensorType) -> GradientError:
    """The error for a tensor from outside that requires a gradient, where compiled code reads whether it does."""
    return GradientError(
        explain(
            f"requires_grad: compiled code ({name}) must not read it of a tensor from outside that requires a "
            f"gradient, or of what is computed from one; got one of type {type}",
            "@nc.jit\ndef f(x):\n    return x * 2 if x.requires_grad else x",
            "One compiled function serves arguments with and without gradients, and reads False for both.",
            "@nc.jit\ndef f(x, wanted):\n    return x * 2 if wanted else x\n\nf(x, x.requires_grad)",
        )
    )
