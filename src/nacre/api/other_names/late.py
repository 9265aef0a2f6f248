"""Methods of tensors whose functions are loaded at their first use; see `methods`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from nacre.api.arranging.window_places import windows
from nacre.api.autograd.methods import Differentiable
from nacre.api.operands import TensorLike
from nacre.base.dims import Size
from nacre.base.types import normal_axis

LATE: Final = (
    "bincount corrcoef cov cummax cummin diag diag_embed diagflat diagonal fmax fmin fmod histc index_add index_copy "
    "index_fill kron logcumsumexp mode nanmean nanquantile nansum quantile scatter scatter_add scatter_reduce "
)

WITHOUT_METHOD: Final = (
    "bucketize digitize histogram histogram2d histogramdd histogram_bin_edges interp median nanargmax nanargmin "
    "nancumprod nancumsum nanmax nanmedian nanmin nanpercentile nanprod nanstd nanvar percentile segment_max "
    "segment_mean segment_min segment_prod segment_sum sliding_window_view"
)

Axes: TypeAlias = int | tuple[int, ...] | None
Whole: TypeAlias = int  # Python's types, for a class whose methods have their names
Real: TypeAlias = float
Flag: TypeAlias = bool


class LateMethod:
    """A method that is a public function: at its first use, the function takes its place in the class."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        function = getattr(sys.modules["nacre"], self.name)
        setattr(owner, self.name, function)
        return function if instance is None else function.__get__(instance, owner)


class IndexUpdates:
    """The places of a tensor by a key: `x.at[key]`."""

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Any:
        return sys.modules["nacre"].IndexUpdate(self._x, key)

    def __repr__(self) -> str:
        return f"<places of a tensor of type {self._x.type}: write x.at[key].add(value), for example>"


class LateMethods(Differentiable):
    """A value with the methods whose functions are loaded late."""

    __slots__ = ()

    if TYPE_CHECKING:

        def bincount(
            self, /, weights: TensorLike | None = None, minlength: Whole = 0, *, length: Size | None = None
        ) -> Self: ...
        def corrcoef(self, y: TensorLike | None = None, /, *, rowvar: Flag = True) -> Self: ...
        def cov(
            self,
            y: TensorLike | None = None,
            /,
            *,
            rowvar: Flag = True,
            correction: Real = 1.0,
            fweights: TensorLike | None = None,
            aweights: TensorLike | None = None,
        ) -> Self: ...
        def cummax(self, /, axis: Whole | None = None) -> tuple[Self, Self]: ...
        def cummin(self, /, axis: Whole | None = None) -> tuple[Self, Self]: ...
        def diag(self, /, k: Whole = 0) -> Self: ...
        def diag_embed(self, /, offset: Whole = 0, dim1: Whole = -2, dim2: Whole = -1) -> Self: ...
        def diagflat(self, /, k: Whole = 0) -> Self: ...
        def diagonal(self, /, offset: Whole = 0, axis1: Whole = 0, axis2: Whole = 1) -> Self: ...
        def fmax(self, y: TensorLike, /) -> Self: ...
        def fmin(self, y: TensorLike, /) -> Self: ...
        def fmod(self, y: TensorLike, /) -> Self: ...
        def histc(self, /, bins: Whole = 100, min: Real = 0, max: Real = 0) -> Self: ...
        def index_add(self, /, dim: Whole, index: TensorLike, source: TensorLike, *, alpha: TensorLike = 1) -> Self: ...
        def index_copy(self, /, dim: Whole, index: TensorLike, source: TensorLike) -> Self: ...
        def index_fill(self, /, dim: Whole, index: TensorLike, value: TensorLike) -> Self: ...
        def kron(self, y: TensorLike, /) -> Self: ...
        def logcumsumexp(self, /, axis: Whole | None = None) -> Self: ...
        def mode(self, /, axis: Whole = -1, *, keepdims: Flag = False) -> tuple[Self, Self]: ...
        def nanmean(self, /, axis: Axes = None, *, keepdims: Flag = False) -> Self: ...
        def nanquantile(
            self, q: TensorLike, /, axis: Axes = None, *, method: str = "linear", keepdims: Flag = False
        ) -> Self: ...
        def nansum(self, /, axis: Axes = None, *, dtype: Any = None, keepdims: Flag = False) -> Self: ...
        def quantile(
            self, q: TensorLike, /, axis: Axes = None, *, method: str = "linear", keepdims: Flag = False
        ) -> Self: ...
        def scatter(self, /, dim: Whole, index: TensorLike, src: TensorLike, *, reduce: str | None = None) -> Self: ...
        def scatter_add(self, /, dim: Whole, index: TensorLike, src: TensorLike) -> Self: ...
        def scatter_reduce(
            self, /, dim: Whole, index: TensorLike, src: TensorLike, reduce: str, *, include_self: Flag = True
        ) -> Self: ...

    @property
    def at(self) -> Any:
        """The places of the tensor: `x.at[key].set(value)` and others return a new tensor; see `nacre.IndexUpdate`."""
        return IndexUpdates(self)

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        value: Any = self
        return value // other, value % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        value: Any = self
        return other // value, other % value

    def trace(self, offset: Whole = 0, axis1: Whole = 0, axis2: Whole = 1, dtype: Any = None) -> Self:
        """The sums of the diagonals over two axes, in 64 bits for small integers."""
        public = sys.modules["nacre"]
        return public.sum(public.diagonal(self, offset, axis1, axis2), axis=-1, dtype=dtype)

    def unfold(self, dimension: Whole, size: Whole, step: Whole) -> Self:
        """The windows of one size along an axis, each `step` elements behind the one before, on a new last axis."""
        axis = normal_axis(dimension, len(self.type.shape), "unfold")
        return windows("unfold", self, axis, size, step)
