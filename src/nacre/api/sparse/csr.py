"""Compressed sparse rows: the numbers that are stored, their columns, and where each row begins."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from nacre.api.elementwise.apply import require
from nacre.api.manipulation import cut
from nacre.api.operands import TensorLike, as_tensor, filled, in_single, meet, numbers, require_inside
from nacre.api.primitives import picking, pointwise, search, sorting, view
from nacre.api.statistical import cumulative_sum
from nacre.api.taking import from_zero
from nacre.api.tensor import Tensor
from nacre.base.arguments import shown, whole_numbers
from nacre.base.dims import LIMIT
from nacre.base.dtypes import NUMERIC, DType, int64
from nacre.base.errors import ArgumentError, DTypeError, KindError, ShapeError
from nacre.base.tree import register
from nacre.interpret.evaluate import from_numpy


class CSR:
    """A sparse matrix: the entries of row i are those from `indptr[i]` to `indptr[i + 1]`, in their order.

    Places without an entry are 0; entries of one place are added.  A product with a dense tensor adds the terms of a
    row in the order of its entries.  `nacre.sparse.csr`, `from_scipy` and `from_dense` make it.  As an argument or
    result of a transformed function it is a tree with the leaves data, indices and indptr.

    >>> m = nc.sparse.from_dense([[1.0, 0.0], [2.0, 3.0]])
    >>> m @ nc.tensor([1.0, 10.0])
    Tensor([ 1., 32.], f32[2])
    >>> nc.grad(lambda data: nc.sum(m.with_data(data) @ nc.tensor([1.0, 10.0])))(m.data)
    Tensor([ 1.,  1., 10.], f32[3])
    """

    __slots__ = ("data", "indices", "indptr", "shape")
    __array_ufunc__ = None  # so that NumPy's arrays leave products to this class

    def __init__(self, data: Tensor, indices: Tensor, indptr: Tensor, shape: tuple[int, int]) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape

    def __repr__(self) -> str:
        return f"CSR({self.nnz} entries, {self.dtype.short}[{', '.join(map(str, self.shape))}])"

    @property
    def dtype(self) -> DType:
        """The dtype of the entries."""
        return as_tensor(self.data).type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes, 2."""
        return 2

    @property
    def nnz(self) -> Any:
        """The number of entries."""
        return as_tensor(self.data).type.shape[0]

    def with_data(self, data: TensorLike, /) -> CSR:
        """The matrix with other numbers at the same places.  Raises ShapeError for another number of them."""
        held = as_tensor(data)
        if held.type.shape != (self.nnz,):
            raise ShapeError(f"with_data: data must have shape ({self.nnz},); got {held.type.shape}")
        return CSR(held, self.indices, self.indptr, self.shape)

    def rows(self) -> Tensor:
        """The row of each entry, int64[nnz]."""
        count = (self.nnz,)
        ends = as_tensor(self.indptr, int64)
        found: Any = search.search(ends, pointwise.iota(count, 0, int64), right=True)
        return pointwise.sub(found, filled(found, 1))

    def to_dense(self) -> Tensor:
        """The matrix as a tensor."""
        rows, columns = self.shape
        row: Any = self.rows()
        begins = pointwise.mul(row, filled(row, columns))
        places = pointwise.add(begins, as_tensor(self.indices, int64))
        start = pointwise.fill(0, (rows * columns,), self.dtype)
        return view.reshape(picking.take_add(start, places, self.data, 0), (rows, columns))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refused, because NumPy would make an array of one object."""
        raise KindError("asarray: a dense matrix is required; got CSR; use its to_dense()")

    def transpose(self) -> CSR:
        """The transpose: rows of it are columns of this matrix, with entries in the order of their rows."""
        rows, columns = self.shape
        places = as_tensor(self.indices, int64)
        order = sorting.argsort(places, 0)
        counts = picking.take_add(pointwise.fill(0, (columns,), int64), places, filled(places, 1), 0)
        data, indices = (picking.take(v, order, 0) for v in (self.data, self.rows()))
        return CSR(data, indices, cumulative_sum(counts, include_initial=True), (columns, rows))

    @property
    def T(self) -> CSR:
        """The transpose."""
        return self.transpose()

    def __matmul__(self, x: TensorLike) -> Tensor:
        return _times_dense(self, x)

    def __rmatmul__(self, x: TensorLike) -> Tensor:
        held = as_tensor(x)
        rank = len(held.type.shape)
        if rank == 0 or rank > 2:
            raise ShapeError(f"matmul: a dense operand of a sparse product must have 1 or 2 axes; got {held.type}")
        if rank == 1:
            return self.transpose() @ held
        found: Any = self.transpose() @ view.permute(held, (1, 0))
        return view.permute(found, (1, 0))


register(
    CSR,
    lambda m: ((m.data, m.indices, m.indptr), m.shape),
    lambda shape, parts: CSR(parts[0], parts[1], parts[2], cast("tuple[int, int]", shape)),
)


def _times_dense(m: CSR, x: TensorLike) -> Any:
    (data, held), dtype = meet("matmul", (m.data, x))
    require("matmul", dtype, NUMERIC)
    rows, columns = m.shape
    shape = held.type.shape
    if len(shape) not in (1, 2) or shape[0] != columns:
        raise ShapeError(
            f"matmul: the dense operand must have shape [{columns}] or [{columns}, n] for a sparse matrix of shape "
            f"{m.shape}; got {held.type}"
        )
    places = as_tensor(m.indices, int64)

    def product(data: Any, held: Any) -> Any:
        terms = picking.take(held, places, 0)
        wide = view.broadcast(data, terms.type.shape, (0,))
        start = pointwise.fill(0, (rows, *shape[1:]), data.type.dtype)
        return picking.take_add(start, m.rows(), pointwise.mul(wide, terms), 0)

    return in_single(product, data, held)


# ---- constructors


def csr(data: TensorLike, indices: TensorLike, indptr: TensorLike, /, shape: tuple[int, int]) -> CSR:
    """A sparse matrix [rows, columns] from its entries, their columns, and where each row begins.

    `indptr` has one number more than there are rows: the first is 0, the last is the number of entries, and none is
    smaller than the one before.  Raises ArgumentError for other ones, AxisError for a column out of range, both in a
    compiled function when it runs, and ShapeError and DTypeError for other shapes and dtypes.

    >>> nc.sparse.csr([1.0, 2.0, 3.0], [0, 0, 1], [0, 1, 3], shape=(2, 2)).to_dense()
    Tensor([[1., 0.],
            [2., 3.]], f32[2, 2])
    """
    held, columns, ends = (as_tensor(v) for v in (data, indices, indptr))
    sizes = whole_numbers(shape, "csr", "shape")
    if len(sizes) != 2 or min(sizes) < 0:
        raise ShapeError(f"csr: shape must be two sizes, of rows and columns; got {shape}")
    require("csr", held.type.dtype, NUMERIC)
    if len(held.type.shape) != 1 or columns.type.shape != held.type.shape or ends.type.shape != (sizes[0] + 1,):
        raise ShapeError(
            "csr: data and indices must be vectors of one size, and indptr must have one number more than there are "
            f"rows, {sizes[0] + 1}; got {held.type}, {columns.type} and {ends.type}"
        )
    if columns.type.size == 0:
        columns = as_tensor(columns, int64)
    if not ends.type.dtype.is_integer:
        raise DTypeError(f"csr: indptr must have an integer dtype; got {ends.type}; use astype")
    columns, ends = from_zero("csr", columns, sizes[1], ""), as_tensor(ends, int64)
    _require_ends(ends, held.type.shape[0])
    return CSR(held, columns, ends, (int(sizes[0]), int(sizes[1])))


def _require_ends(ends: Any, entries: int) -> None:
    rows = ends.type.shape[0] - 1
    lengths = pointwise.sub(cut(ends, 0, 1, rows + 1), cut(ends, 0, 0, rows))
    text = "csr: the numbers of indptr must not fall; got a difference of {got}; count the entries before each row"
    require_inside(lengths, 0, LIMIT, ArgumentError, text)
    text = f"csr: indptr must begin with 0 and end with the number of entries, {entries}; got {{got}} at an end"
    require_inside(cut(ends, 0, 0, 1), 0, 1, ArgumentError, text)
    require_inside(cut(ends, 0, rows, rows + 1), entries, entries + 1, ArgumentError, text)


def from_scipy(matrix: Any, /) -> CSR:
    """The sparse matrix of one of `scipy.sparse`, of any of its formats; the numbers are copied.

    Raises KindError for other objects.

    >>> import scipy.sparse
    >>> nc.sparse.from_scipy(scipy.sparse.eye(3, format="csr")) @ nc.ones(3, dtype=nc.float64)
    Tensor([1., 1., 1.], f64[3])
    """
    if not hasattr(matrix, "tocsr"):
        raise KindError(
            f"from_scipy: a matrix of scipy.sparse is required; got {shown(matrix)}; write nacre.sparse.from_dense(x)"
        )
    held = matrix.tocsr()
    data, indices, indptr = (from_numpy(np.array(v)) for v in (held.data, held.indices, held.indptr))
    return csr(data, indices, indptr, shape=held.shape)


def from_dense(x: TensorLike, /) -> CSR:
    """The sparse matrix of the elements of a matrix that are not 0, which must be known.

    Raises ShapeError for other ranks, TraceError for a traced matrix.

    >>> nc.sparse.from_dense([[1.0, 0.0], [2.0, 3.0]])
    CSR(3 entries, f32[2, 2])
    """
    held = as_tensor(x)
    if len(held.type.shape) != 2:
        raise ShapeError(f"from_dense: x must be a matrix; got {held.type}")
    there = numbers(held, "from_dense") != 0
    rows, columns = np.nonzero(there)
    ends = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int64)
    places = from_numpy(rows * held.type.shape[1] + columns)
    data = picking.take(view.reshape(held, (held.type.size,)), places, 0)
    return csr(data, from_numpy(columns), from_numpy(ends), shape=held.type.shape)
