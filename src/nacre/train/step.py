"""The work on batches: losses, gradients, clipping and updates, each a function that `nc.jit` compiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from nacre.api.operands import as_tensor, constant, filled, spread
from nacre.api.primitives import pointwise
from nacre.base.arguments import shown
from nacre.base.dtypes import DType, as_dtype, bfloat16, float16, float32
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.state import STATE
from nacre.nn.module import Module
from nacre.optim.clip import clip_grad_norm_, clip_grad_value_
from nacre.optim.loss_scaling import GradScaler
from nacre.optim.optimiser import Optimizer
from nacre.trace.bind import autocast
from nacre.trace.modes import gradients
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable
from nacre.train.metrics import Metric, batch_size, measured
from nacre.transform.jit import Jitted, jit

Forward = Callable[..., tuple[Any, Any]]
Loss = Callable[[Any, Any], Any]
Measured = dict[str, tuple[float, float]]  # totals and weights by name
LOSS, NORM, SCALE = "loss", "gradient_norm", "loss_scale"


def precision_of(given: object) -> DType:
    """The dtype of a training's products; raises ArgumentError for any but three."""
    try:
        found = None if given is None else as_dtype(given)
    except DTypeError:
        found = None
    if found is None or found not in (float32, bfloat16, float16):
        remedy = "float16" if str(given) in ("fp16", "half") else "bfloat16"
        raise ArgumentError(
            f'Trainer: precision must be float32, bfloat16 or float16; got {shown(given)}; write precision="{remedy}", '
            "or leave it out for float32"
        )
    return found


def spread_batch(batch: Any) -> tuple[Any, ...]:
    """A batch as arguments: a tuple or list gives several, anything else gives one."""
    return tuple(cast("Sequence[Any]", batch)) if isinstance(batch, tuple | list) else (batch,)


def usual_forward(model: Module, *batch: Any) -> tuple[Any, Any]:
    """The usual forward pass: the model applied to all parts of a batch but the last, and the last part."""
    if len(batch) < 2:
        raise ArgumentError(
            f"Trainer: a batch must be (input, …, target); got {len(batch)} part; pass forward=lambda model, batch: "
            "(prediction, target)"
        )
    return model(*batch[:-1]), batch[-1]


@contextmanager
def evaluating(model: Module) -> Generator[None]:
    """Evaluation mode for the block; afterwards each module has its earlier mode again."""
    before = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with gradients(False):
            yield
    finally:
        for module, training in before:
            module.training = training


class StandardStep:
    """The standard step: forward pass, loss and metrics, and updates of the parameters."""

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Loss | None,
        metrics: Mapping[str, Metric],
        forward: Forward,
        clip_norm: float | None,
        clip_value: float | None,
        precision: DType = float32,
    ) -> None:
        self.model, self.optimizer, self.loss, self.metrics, self.forward = model, optimizer, loss, metrics, forward
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.low = None if precision is float32 else precision
        self.scaler = GradScaler() if precision is float16 else None

    @property
    def parameters(self) -> list[Variable]:
        """The parameters of the optimiser."""
        return [p for group in self.optimizer.param_groups for p in group.params]

    def measure(self, *batch: Any) -> dict[str, Any]:
        """The loss and the metrics of a batch."""
        if self.loss is None:
            raise ArgumentError("Trainer: validation needs a loss; got none; pass loss= or evaluate=")
        with autocast(STATE.autocast if self.low is None else self.low, "autocast"):
            prediction, target = self.forward(self.model, *batch)
            found = self.loss(prediction, target)
        if not isinstance(found, Value) or found.type.shape != ():
            got = found.type if isinstance(found, Value) else type(found).__name__
            raise ShapeError(f"Trainer: the loss must be one number; got {got}; reduce it by mean or sum")
        with gradients(False):
            seen = stripped(as_tensor(prediction)) if isinstance(prediction, Value) else prediction
            return {LOSS: found, **{name: f(seen, target) for name, f in self.metrics.items()}}

    def whole(self, *batch: Any) -> dict[str, Any]:
        """One update from one batch."""
        found = self.measure(*batch)
        self._scaled(found[LOSS]).backward()
        return {**found, **self.update()}

    def _scaled(self, loss: Any) -> Any:
        return loss if self.scaler is None else self.scaler.scale(loss)

    def gather(self, weight: Any, *batch: Any) -> dict[str, Any]:
        """Add the gradients of a batch, times a weight, to the gathered ones."""
        found = self.measure(*batch)
        self._scaled(found[LOSS] * as_tensor(weight, found[LOSS].dtype)).backward()
        return found

    def close(self, weights: Any) -> dict[str, Any]:
        """One update from the gathered gradients, divided by the sum of their weights."""
        for p in self.parameters:
            g = p.gradient
            if g is not None:
                gradient = stripped(g)
                p.gradient = pointwise.div(gradient, spread(as_tensor(weights, p.dtype), p.shape))
        return self.update()

    def update(self) -> dict[str, Any]:
        """Clip, update the parameters, clear the gradients; returns the norm if it is clipped, and the loss scale."""
        found: dict[str, Any] = {}
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.clip_value is not None:
            clip_grad_value_(self.parameters, self.clip_value)
        if self.clip_norm is not None:
            norm = clip_grad_norm_(self.parameters, self.clip_norm)
            found[NORM] = norm if self.scaler is None else _where_finite(norm)
        if self.scaler is None:
            self.optimizer.step()
        else:
            found[SCALE] = self.scaler.scale(constant(1.0, float32))
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()
        return found


def _where_finite(norm: Any) -> tuple[Any, Any]:
    """A norm and the count 1, or zeros for a norm that is not finite, whose step is skipped."""
    finite = pointwise.isfinite(norm)
    return pointwise.select(finite, norm, filled(norm, 0.0)), pointwise.cast(finite, float32)


class Step:
    """The functions of `StandardStep`, or the user's own, compiled or not; `train` takes the batches of one update."""

    def __init__(
        self,
        work: StandardStep,
        own: Callable[..., Any] | None,
        own_evaluate: Callable[..., Any] | None,
        compiled: bool,
    ) -> None:
        def made(f: Callable[..., Any]) -> Callable[..., Any]:
            return cast("Any", f) if isinstance(f, Jitted) or not compiled else jit(f)

        self.model = work.model
        self.whole = made(own or work.whole)
        self.gather, self.close = made(work.gather), made(work.close)
        self.measure = made(own_evaluate or work.measure)

    def train(self, batches: Sequence[Any], alone: bool) -> Measured:
        """One update; with `alone`, from one batch in one function."""
        sizes = [batch_size(b) for b in batches]
        if alone:
            return measured(_named(self.whole(*spread_batch(batches[0]))), sizes[0])
        found: Measured = {}
        shares = [n / max(1, sizes[0]) for n in sizes]
        for batch, n, share in zip(batches, sizes, shares, strict=True):
            predicted = self.gather(constant(share, float32), *spread_batch(batch))
            for name, (total, weight) in measured(predicted, n).items():
                before = found.get(name, (0.0, 0.0))
                found[name] = before[0] + total, before[1] + weight
        closed = self.close(constant(math.fsum(shares), float32))
        return {**found, **measured(closed, sum(sizes))}

    def evaluate(self, batch: Any) -> Measured:
        """A batch's loss and metrics; the model is in evaluation mode."""
        return measured(_named(self.measure(*spread_batch(batch))), batch_size(batch))


def _named(found: Any) -> dict[str, Any]:
    """The values of a user's step, by name."""
    if isinstance(found, Mapping):
        return dict(cast("Mapping[str, Any]", found))
    if found is None:
        raise ArgumentError("Trainer: the step must return its loss, or a dict of values; got None")
    return {LOSS: found}
