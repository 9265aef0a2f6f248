"""`ranges`: the numbers of a model's activations and gradients for one batch, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from nacre.api.tensor import Tensor
from nacre.base import tree
from nacre.base.boundary import publish_all
from nacre.base.errors import ArgumentError, KindError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.interpret.evaluate import to_numpy
from nacre.nn.module import Module
from nacre.trace.bind import executor
from nacre.trace.value import Value
from nacre.transform.jit import jit

__all__ = ["RangeRow", "RangeTable", "ranges"]


@dataclass(frozen=True)
class RangeRow:
    """The numbers of an activation, or of a gradient: `what` is "activation", "gradient" or "parameter gradient".

    `smallest` is the least magnitude of the numbers that are not zero.  `least`, `smallest` and `largest` are None if
    there are no such numbers.  `zeros` is the share of zeros, `unusual` the number of NaN and infinities.

    >>> from nacre import inspect, nn
    >>> (row, *_) = inspect.ranges(nn.Sequential(nn.ReLU()), nc.tensor([[-1.0, 2.0]]))
    >>> row.place, row.least, row.largest, row.zeros
    ('[0] (ReLU)', 0.0, 2.0, 0.5)
    """

    place: str
    what: str
    type: TensorType
    least: float | None
    smallest: float | None
    largest: float | None
    zeros: float
    unusual: int


@dataclass(frozen=True)
class RangeTable:
    """The rows in the order of the forward pass, then the gradients; `print` shows them as a table.

    >>> from nacre import inspect, nn
    >>> str(inspect.ranges(nn.Sequential(nn.ReLU()), nc.ones((1, 2)))).split()[:3]
    ['place', 'what', 'type']
    """

    rows: tuple[RangeRow, ...]

    def __iter__(self) -> Iterator[RangeRow]:
        return iter(self.rows)

    def __str__(self) -> str:
        def shown(x: float | None) -> str:
            return "" if x is None else f"{x:.3g}"

        lines = [("place", "what", "type", "least", "smallest", "largest", "zeros", "NaN, inf")]
        for r in self.rows:
            numbers = shown(r.least), shown(r.smallest), shown(r.largest)
            lines.append((r.place, r.what, str(r.type), *numbers, f"{r.zeros:.0%}", str(r.unusual)))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                text.ljust(w) if k < 3 else text.rjust(w) for k, (text, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


def ranges(model: Module, batch: Any, loss: Callable[[Any], Any] | None = None) -> RangeTable:
    """The range of each module's result, of its gradient, and of each parameter's gradient, for one batch.

    `batch` is the argument of the model, or a tuple of its arguments.  `loss` takes the model's result and returns a
    scalar; by default it is the sum.  A module that runs several times has a row for each.  Modules, gradients and
    random states are left as they are.  Raises KindError if the model is no module, and ArgumentError if the loss is no
    scalar.

    >>> from nacre import inspect, nn
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> table = inspect.ranges(model, nc.ones((4, 2)))
    >>> [(row.place, row.what, str(row.type)) for row in table][:2]
    [('[0] (Linear)', 'activation', 'f32[4, 3]'), ('[1] (ReLU)', 'activation', 'f32[4, 3]')]
    """
    given: Any = model
    if not isinstance(given, Module):
        raise KindError(f"ranges: model must be a module; got {type(given).__name__}")
    args: tuple[Any, ...] = cast("Any", batch) if isinstance(batch, tuple) else (batch,)
    labels: list[tuple[str, str]] = []

    def numbers(*args: Any) -> list[Value]:
        """The activations, and the gradients."""
        labels.clear()
        observed = _Observed(model)
        try:
            found: Any = observed.result(args)
        finally:
            observed.remove()
        total: Any = _sum(found) if loss is None else loss(found)
        if not isinstance(total, Tensor) or total.type.rank:
            raise ArgumentError(f"ranges: loss must return a scalar tensor; got {total!r}")
        for p in model.parameters():
            p.grad = None
        if total.requires_grad:  # a model without parameters has no gradients
            total.backward()
        gradients = [(name, p.grad) for name, p in model.named_parameters() if p.grad is not None]
        labels.extend((place, "activation") for place, _ in observed.results)
        labels.extend((place, "gradient") for place, _ in observed.gradients)
        labels.extend((name, "parameter gradient") for name, _ in gradients)
        return [x for _, x in (*observed.results, *observed.gradients, *gradients)]

    jitted = jit(numbers, dynamic=False)
    prepared, concrete = jitted.prepare(*args), jitted.concrete(*args)
    outputs = executor().execute(concrete.graph, prepared.inputs)
    return RangeTable(tuple(_row(*label, x) for label, x in zip(labels, outputs, strict=False)))


class _Observed:
    """A model whose modules' results and their gradients are noted in one run."""

    def __init__(self, model: Module) -> None:
        self.model = model
        self.results: list[tuple[str, Value]] = []
        self.gradients: list[tuple[str, Value]] = []
        self.handles: list[Any] = []
        for name, module in model.named_modules():
            path = "".join(f"[{word}]" if word.isdigit() else f".{word}" for word in name.split(".") if word)
            place = f"{path.removeprefix('.')} ({type(module).__name__})" if path else type(module).__name__
            if not any(True for _ in module.children()) or not path:
                self.handles.append(module.register_forward_hook(self.noting(place)))

    def noting(self, place: str) -> Callable[..., None]:
        """A hook that notes the results of a module."""

        def note(module: Module, args: Any, result: Any) -> None:
            """Note each tensor of floats in the result."""
            for x in tree.flatten(result)[0]:
                if isinstance(x, Tensor) and x.type.dtype.is_differentiable:
                    self.results.append((place, x))
                    if x.node is not None:
                        x.register_hook(lambda g: self.gradients.append((place, g)))

        return note

    def result(self, args: Sequence[Any]) -> Any:
        """The model's result."""
        return self.model(*args)

    def remove(self) -> None:
        """Remove the hooks of the modules."""
        for handle in self.handles:
            handle.remove()


def _sum(found: Any) -> Any:
    """The sum of all floats in a result."""
    leaves: list[Any] = tree.flatten(found)[0]
    parts = [x.sum() for x in leaves if isinstance(x, Tensor) and x.type.dtype.is_differentiable]
    total: Any = parts[0] if parts else None
    for p in parts[1:]:
        total = total + p
    return total


def _row(place: str, what: str, x: Value) -> RangeRow:
    numbers = to_numpy(x)
    numbers = numbers.astype(np.float32) if x.type.dtype.bits < 32 else numbers
    held = numbers[np.isfinite(numbers)]
    held = np.abs(held) if x.type.dtype.is_complex else held
    magnitudes = np.abs(held[held != 0])
    return RangeRow(
        place,
        what,
        x.type,
        float(held.min()) if held.size else None,
        float(magnitudes.min()) if magnitudes.size else None,
        float(held.max()) if held.size else None,
        float((held == 0).sum()) / max(1, numbers.size),
        numbers.size - held.size,
    )


publish_all(__name__)
