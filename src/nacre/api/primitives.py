"""The primitives' functions for the public packages, where every value is a `Tensor`."""

from __future__ import annotations

from typing import Any, Final

import nacre.ops.attention
import nacre.ops.check
import nacre.ops.control
import nacre.ops.convolution
import nacre.ops.dot
import nacre.ops.identity
import nacre.ops.index
import nacre.ops.parts
import nacre.ops.pointwise
import nacre.ops.random
import nacre.ops.reduce
import nacre.ops.search
import nacre.ops.sort
import nacre.ops.view
import nacre.ops.window
import nacre.ops.winograd
from nacre.base.lazy import LateModule

attending: Final[Any] = nacre.ops.attention
checking: Final[Any] = nacre.ops.check
contract: Final[Any] = nacre.ops.dot
control: Final[Any] = nacre.ops.control
convolve: Final[Any] = nacre.ops.convolution
drawing: Final[Any] = LateModule("nacre.ops.special.drawn")
fourier: Final[Any] = LateModule("nacre.ops.fft")
identity: Final[Any] = nacre.ops.identity
matrices: Final[Any] = LateModule("nacre.ops.linalg")
parts: Final[Any] = nacre.ops.parts
picking: Final[Any] = nacre.ops.index
pointwise: Final[Any] = nacre.ops.pointwise
randomness: Final[Any] = nacre.ops.random
reduce: Final[Any] = nacre.ops.reduce
search: Final[Any] = nacre.ops.search
sorting: Final[Any] = nacre.ops.sort
special: Final[Any] = LateModule("nacre.ops.special")
view: Final[Any] = nacre.ops.view
window: Final[Any] = nacre.ops.window
winograd: Final[Any] = nacre.ops.winograd
