"""What the namespace offers: its dtypes, devices and limits.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any, Final

from nacre.api.data_types import KINDS
from nacre.api.operands import DEFAULT_FLOAT, DEFAULT_INTEGER
from nacre.base.arguments import require_device
from nacre.base.dtypes import ALL, DType, bfloat16, float16, int64
from nacre.base.errors import ArgumentError
from nacre.base.state import STATE
from nacre.interpret.batch import Batch
from nacre.interpret.stage import Staging

MOST_AXES: Final = 32  # that every supported version of NumPy has
DTYPES: Final = {d.name: d for d in ALL if d not in (float16, bfloat16)}  # those that the standard defines


class NamespaceInfo:
    """The result of `nacre.__array_namespace_info__()`: its methods describe the namespace.

    >>> nc.__array_namespace_info__().default_dtypes()["integral"]
    nacre.int64
    """

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are, and the most axes of a tensor.

        Boolean indexing and shapes that depend on numbers need known numbers: inside `jit` and `vmap` there are none.
        """
        known = not any(isinstance(each, Staging | Batch) for each in STATE.interpreters)
        return {"boolean indexing": known, "data-dependent shapes": known, "max dimensions": MOST_AXES}

    def default_device(self) -> str:
        """The device of tensors that are made without one."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """All devices."""
        return ("cpu",)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of Python floats and integers, and of indices."""
        require_device(device, "default_dtypes")
        return {
            "real floating": DEFAULT_FLOAT,
            "complex floating": DEFAULT_FLOAT.paired,
            "integral": DEFAULT_INTEGER,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The standard's dtypes by name: all, or those of the kinds that `isdtype` has."""
        require_device(device, "dtypes")
        kinds = tuple(KINDS) if kind is None else (kind,) if isinstance(kind, str) else kind
        for word in kinds:
            if word not in KINDS:
                raise ArgumentError(f"dtypes: kind must be one of {', '.join(KINDS)}; got {word!r}")
        return {name: d for name, d in DTYPES.items() if any(d in KINDS[word] for word in kinds)}


def __array_namespace_info__() -> NamespaceInfo:
    """An object that describes the namespace, by the array API standard.

    >>> nc.__array_namespace_info__().devices()
    ('cpu',)
    """
    return NamespaceInfo()
