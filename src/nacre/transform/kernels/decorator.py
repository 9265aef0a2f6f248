"""`kernel`: a function of loops over arrays becomes an operation on tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, Final

from nacre.base.dims import LIMIT, Size
from nacre.base.errors import DTypeError, GradientError
from nacre.base.types import TensorType
from nacre.interpret.custom.call import TRACES
from nacre.ir.primitive import Jvp, Nest, Primitive, withdraw
from nacre.kernel.ast import Kernel
from nacre.kernel.python.batching import batched
from nacre.kernel.python.reached import SizeCheck
from nacre.kernel.python.translate import Signature, Translation, translated
from nacre.ops.check import check
from nacre.ops.pointwise import dimension
from nacre.ops.shape import front
from nacre.trace.bind import bind
from nacre.trace.value import Value
from nacre.transform.arguments import as_value
from nacre.transform.derivatives.call import CustomCall, Given
from nacre.transform.derivatives.custom import CustomJvp, CustomVjp
from nacre.transform.kernels.definition import KernelParameters, PythonSource, decoded, encoded, output_types
from nacre.transform.kernels.library import applied

__all__ = ["kernel"]
NESTED: Final = 4  # calls of a kernel, with other arguments each time, within the traces of its rule
KEPT: Final = 64  # translations of a kernel; then it starts again
Batch = tuple[tuple[bool, ...], ...]  # for each `vmap`, outermost first: which inputs have its axis, which is the first


def kernel(f: Callable[..., Any] | None = None, /, *, out: Any, debug: bool = False) -> Any:
    """A decorator: a Python function of loops over arrays becomes an operation on tensors.

    The function's parameters are its inputs, then its outputs, which it stores element by element; elements that it
    does not store are 0.  Inputs are tensors of real numbers or bool.  `out` gives the outputs' types for those of the
    inputs: a type, a shape and a dtype, or a list of these.  Keyword-only parameters are numbers, strings or None.

    The kernel returns the outputs.  Its `function` is the Python function, which computes the same in NumPy arrays.
    `defvjp(forward, backward)` and `defjvp(rule)` give it a derivative, as in `nacre.custom_vjp` and
    `nacre.custom_jvp`.

    An index outside of an array reads 0, and a store there has no effect.  With `debug`, the call raises AxisError, as
    it does where rounds of a `nacre.prange` use the same element.  Raises GraphError, with the line, for a function
    that is not a kernel.

    >>> @nc.kernel(out=lambda x, y: x)
    ... def hypotenuse(x, y, out):
    ...     for i in nc.prange(x.shape[0]):
    ...         out[i] = (x[i] * x[i] + y[i] * y[i]) ** 0.5
    >>> hypotenuse(nc.tensor([3.0, 5.0]), nc.tensor([4.0, 12.0]))
    Tensor([ 5., 13.], f32[2])
    """
    if f is None:
        return partial(kernel, out=out, debug=debug)
    return PythonKernel(f, out, debug)


class PythonKernel:
    """An operation on tensors whose kernel is a Python function; `function` is that function itself."""

    def __init__(self, f: Any, out: Any, debug: bool) -> None:
        self.source, self.out, self.debug = PythonSource.of(f), out, debug
        self.function = f
        self.parameters = KernelParameters.of(self.source.main.function, out)
        self.primitive = self._primitive()
        self.translations: dict[tuple[object, ...], Translation] = {}
        self.rule: CustomJvp | CustomVjp | None = None
        update_wrapper(self, f)
        places = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in self.parameters.inputs]
        named = [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=x) for n, x in self.parameters.others.items()
        ]
        self.__signature__ = inspect.Signature([*places, *named])

    def __repr__(self) -> str:
        return f"<kernel {self.parameters.name}>"

    def __reduce__(self) -> str:
        """For pickle: the name by which its module has it."""
        return self.function.__qualname__

    def __call__(self, *args: Any, **given: Any) -> Any:
        """The outputs for inputs: a tensor, or a tuple of them."""
        inputs, others = self.parameters.arranged(args, given)
        if self.rule is not None and not self._is_nested(self.rule, [*inputs, *others.values()]):
            return self.rule(*inputs, *others.values())
        return self.apply(inputs, others)

    @staticmethod
    def _is_nested(rule: CustomJvp | CustomVjp, args: Sequence[Any]) -> bool:
        """Whether a call is in rules of ever other calls, as that of xⁿ, which may call the kernel for n - 1.

        Only derivatives of a higher order than `NESTED` read the rule of such a call.
        """
        own = [c for c in TRACES.calls if isinstance(c, CustomCall) and c.f is rule.f]
        if len(own) < NESTED:
            return False
        given = Given(rule.operation, args, rule.numbers(args))
        return not any(c.given.like(given) for c in own)

    def apply(self, inputs: Sequence[Any], others: Mapping[str, Any]) -> Any:
        """The outputs, without a derivative."""
        values = [as_value(x, self.parameters.name) for x in inputs]
        for n, x in zip(self.parameters.inputs, values, strict=True):
            if x.type.dtype.is_complex or x.type.dtype.is_storage:
                raise DTypeError(
                    f"{self.parameters.name}: {n} must have real numbers or bool; got {x.type.dtype.name}; pass its "
                    "real and imaginary parts, or x.astype(nacre.float32)"
                )
        params = self.primitive_params(**others)
        found = bind(self.primitive, *values, **params)
        count = len(self.parameters.outputs)
        if self.debug or not all(x.type.static for x in values):
            outputs = tuple(x.type for x in found[:count])
            translation = self._translation(tuple(x.type for x in values), outputs, params["values"])
            for c in filter(SizeCheck.is_open, translation.sizes):
                check(dimension(c.size), c.least, LIMIT, "axis", c.text)
            for c, value in zip(translation.checks, found[count:], strict=False):
                check(value, c.low, c.high, "axis", c.text)
            found = found[:count]
        return found[0] if len(found) == 1 else tuple(found)

    def primitive_params(self, **others: Any) -> dict[str, Any]:
        """The parameters of the primitive for those of a call, without a batch."""
        return {"values": encoded(self.source.numbers(), self.parameters.arranged_others(others)), "batch": ()}

    # ---- derivatives

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the rule of reverse mode, as `nacre.custom_vjp` has it."""
        self.rule = CustomVjp(self._positional(), self._numbers())
        self.rule.defvjp(forward, backward)

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule of both modes, as `nacre.custom_jvp` has it."""
        self.rule = CustomJvp(self._positional(), self._numbers())
        return self.rule.defjvp(rule)

    def _numbers(self) -> list[int]:
        first = len(self.parameters.inputs)
        return list(range(first, first + len(self.parameters.others)))

    def _positional(self) -> Callable[..., Any]:
        count = len(self.parameters.inputs)
        names = (*self.parameters.inputs, *self.parameters.others)

        def positional(*args: Any) -> Any:
            """The kernel, of which all parameters are positional."""
            return self.apply(args[:count], dict(zip(self.parameters.others, args[count:], strict=True)))

        positional.__name__ = positional.__qualname__ = self.parameters.name
        places = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
        positional.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
        return positional

    # ---- the primitive

    def _primitive(self) -> Primitive:
        version = self.source.version(self.out, self.debug)
        name = f"kernel_{self.parameters.name}_{version}"  # so that kernels of one name are two operations
        withdraw(name)
        return Primitive(
            name,
            self._types,
            Nest(self._kernel, partial=True, optimised=True),
            Jvp(self._no_derivative),
            self._batched,
            multiple=True,
            version=version,
        )

    def _types(self, *types: TensorType, values: str, batch: Batch) -> tuple[TensorType, ...]:
        """The types of the outputs, and of those of debug mode."""
        inner, sizes = _of_example(types, batch)
        found = self._outputs(inner, decoded(values)[1])
        if self.debug:
            outputs = self._translation(inner, found, values).kernel.outputs
            found = tuple(TensorType(b.shape, b.dtype) for b in outputs)
        return tuple(t.with_shape((*sizes, *t.shape)) for t in found)

    def _outputs(self, types: Sequence[TensorType], others: Mapping[str, Any]) -> tuple[TensorType, ...]:
        return output_types(self.parameters.name, self.out, types, others, len(self.parameters.outputs))

    def _translation(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...], values: str) -> Translation:
        """The kernel for types of inputs and outputs without a batch."""
        key = types, results, values
        if key not in self.translations:
            numbers, others = decoded(values)
            source = self.source.with_numbers(numbers)
            inputs = dict(zip(self.parameters.inputs, types, strict=True))
            outputs = dict(zip(self.parameters.outputs, results, strict=True))
            if len(self.translations) >= KEPT:
                self.translations.clear()
            made = translated(source.main, Signature(inputs, outputs, others), source.part, applied, self.debug)
            self.translations[key] = made
        return self.translations[key]

    def _kernel(
        self, types: tuple[TensorType, ...], results: tuple[TensorType, ...], /, *, values: str, batch: Batch
    ) -> Kernel:
        """The kernel IR for types of inputs, with the batches around it."""
        inner, sizes = _of_example(types, batch)
        outputs = tuple(t.with_shape(t.shape[len(batch) :]) for t in results[: len(self.parameters.outputs)])
        found = self._translation(inner, outputs, values).kernel
        for k in reversed(range(len(batch))):
            found = batched(found, sizes[k], batch[k], f"example_{k}")
        return found

    def _no_derivative(self, ys: Sequence[Value], xs: Any, ts: Any, /, **params: Any) -> tuple[None, ...]:
        """Raise GradientError unless no output has a derivative."""
        if any(y.type.dtype.is_differentiable for y in ys):
            name = self.parameters.name
            if self.rule is not None:
                raise GradientError(
                    f"kernel: derivatives of {name} must have an order of at most {NESTED}, because its rule calls it "
                    "with other arguments each time; got a higher one; write its value out in the rule"
                )
            raise GradientError(
                f"kernel: {name} must have a rule to be differentiated; got none; set one with {name}.defvjp(forward, "
                f"backward) or @{name}.defjvp, or pass x.detach()"
            )
        return (None,) * len(ys)

    def _batched(
        self, inputs: Sequence[Value], axes: Sequence[int | None], /, *, values: str, batch: Batch
    ) -> tuple[Any, Any]:
        """The outputs of a batch, whose axis comes first."""
        held = [x if a is None else front(x, a) for x, a in zip(inputs, axes, strict=True)]
        mapped = tuple(a is not None for a in axes)
        found = bind(self.primitive, *held, values=values, batch=(mapped, *batch))
        return found, (0,) * len(found)


def _of_example(types: Sequence[TensorType], batch: Batch) -> tuple[tuple[TensorType, ...], list[Size]]:
    """The types of inputs without the axes of batches, and the sizes of these, outermost first."""
    inner, sizes = tuple(types), list[Size]()
    for mapped in batch:
        sizes.append(next(t.shape[0] for t, m in zip(inner, mapped, strict=True) if m))
        inner = tuple(t.with_shape(t.shape[1:]) if m else t for t, m in zip(inner, mapped, strict=True))
    return inner, sizes
