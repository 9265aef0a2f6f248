"""Tensors in a program's file whose dtype safetensors does not have, as tensors that it has.

Elements of less than a byte are packed, the first one in the low bits of a uint8, and complex128 becomes pairs of
float64.  The graph in the file has the type to which they are restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, cast

import numpy as np

from nacre.base.dtypes import BYTE, DType, complex128, float64, uint8
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.trace.value import Value


def carried(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by name, in the form that a file has."""
    return {name: from_numpy(_bytes(x)) if _is_carried(x.type.dtype) else x for name, x in tensors.items()}


def restored(x: Value, type: TensorType) -> Value:
    """The tensor of a type in the graph; x itself where a file does not have the form of that type."""
    if not _is_carried(type.dtype) or not type.static or x.type is not _form(type):
        return x
    array, shape = to_numpy(x), cast("tuple[int, ...]", type.shape)
    if type.dtype is complex128:
        return from_numpy(array.view(np.complex128).reshape(shape))
    bits = type.dtype.bits
    codes = np.stack([array >> place & (1 << bits) - 1 for place in range(0, BYTE, bits)], -1)
    return from_numpy(codes.reshape(-1)[: prod(shape)].view(type.dtype.numpy).reshape(shape))


def _is_carried(dtype: DType) -> bool:
    return dtype is complex128 or (dtype.is_storage and dtype.bits < BYTE)


def _form(type: TensorType) -> TensorType:
    """The type in a file."""
    if type.dtype is complex128:
        return TensorType((*type.shape, 2), float64)
    return TensorType((-(-prod(cast("tuple[int, ...]", type.shape)) * type.dtype.bits // BYTE),), uint8)


def _bytes(x: Any) -> np.ndarray:
    """The elements in the form of a file."""
    dtype: DType = x.type.dtype
    array = np.ascontiguousarray(to_numpy(x)).reshape(x.type.shape)
    if dtype is complex128:
        return array.reshape(-1).view(np.float64).reshape((*array.shape, 2))
    codes = array.reshape(-1).view(np.uint8) & (1 << dtype.bits) - 1
    packed = np.zeros(cast("tuple[int]", _form(x.type).shape), np.uint8)
    each = BYTE // dtype.bits
    for k in range(each):
        part = codes[k::each]
        packed[: len(part)] |= part << np.uint8(k * dtype.bits)
    return packed
