"""`from_dlpack`: tensors of other libraries, without a copy where that is possible."""

from __future__ import annotations

from typing import Any, cast

from nacre.api.interchange.borrow import of_capsule, require_no_record
from nacre.api.operands import distinct
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_flag, require_device, shown
from nacre.base.conversion import require_unmasked
from nacre.base.errors import ArgumentError, Error, ExchangeError, KindError
from nacre.runtime import dlpack
from nacre.trace.value import Value, is_concrete, owned, stripped
from nacre.trace.variable import Variable

__all__ = ["from_dlpack"]


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The tensor of an object of another library that has `__dlpack__`, in the memory of that library where possible.

    Changes that the other library makes later are then visible in the tensor; Nacre itself never writes there.  With
    `copy=True` the tensor has memory of its own.  With `device="cpu"` the other library may copy from another device.

    Raises KindError for an object without `__dlpack__`, DTypeError for elements that Nacre has no dtype of,
    ArgumentError for memory on another device, and ExchangeError if `copy` is False and a copy is needed.

    >>> import numpy as np
    >>> a = np.array([1.0, 2.0])
    >>> x = nc.from_dlpack(a)
    >>> a[0] = 5.0
    >>> x
    Tensor([5., 2.], f64[2])
    """
    require_device(device, "from_dlpack")
    if copy is not None and not is_flag(copy):
        raise KindError(f"from_dlpack: copy must be True, False or None; got {shown(copy)}; leave it out")
    if isinstance(x, Value | Variable):
        return _of_tensor(x.value if isinstance(x, Variable) else x, copy)
    require_unmasked("from_dlpack", x)
    kind = cast("Any", type(x))
    if not (hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")):
        raise KindError(
            f"from_dlpack: the object must have __dlpack__ and __dlpack_device__; got {shown(x)}; write nacre.asarray"
        )
    place = _device(x)
    request: dict[str, Any] = {"max_version": dlpack.NEWEST}
    if place[0] != dlpack.CPU[0]:
        if device is None:
            name = dlpack.DEVICES.get(place[0], f"device type {place[0]}")
            raise ArgumentError(
                f'from_dlpack: memory must be on "cpu"; got {name}:{place[1]}; pass device="cpu", or copy it there '
                "in the other library"
            )
        request["dl_device"] = dlpack.CPU
    if copy is False:
        request["copy"] = False
    return of_capsule(_capsule(x, request), "from_dlpack", copy)  # type: ignore[return-value]


def _capsule(x: Any, request: dict[str, Any]) -> Any:
    """The capsule that another library gives; raises ExchangeError where it refuses."""
    try:
        try:
            return x.__dlpack__(**request)
        except TypeError:  # of a library that has only the first form of the protocol
            if "dl_device" in request:
                raise
            return x.__dlpack__()
    except BufferError as fault:
        if isinstance(fault, Error):
            raise
        raise ExchangeError(
            f"from_dlpack: the other library must export the object; got {shown(x)} ({fault}); convert it there, or "
            "write nacre.asarray"
        ) from fault


def _of_tensor(x: Value, copy: bool | None) -> Tensor:
    """Another tensor of the same numbers, as if they came from another library."""
    require_no_record(x, "from_dlpack")
    x = stripped(x)
    if copy and is_concrete(x):
        x = owned(x)
    return distinct(x, x)


def _device(x: Any) -> tuple[int, int]:
    """The device of an object, as the protocol numbers it."""
    found: Any = x.__dlpack_device__()
    try:
        kind, number = found
        return int(kind), int(number)
    except (TypeError, ValueError):
        raise KindError(
            f"from_dlpack: __dlpack_device__ must return two whole numbers; got {shown(found)}; "
            "let the other library return (1, 0) for the CPU"
        ) from None
