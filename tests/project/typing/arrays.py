"""Tensors as users write them: operators, indices, functions, dtypes, NumPy."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import nacre as nc

x = nc.ones((2, 3))
array = np.ones((2, 3))

# ---- operators with tensors, Python numbers and arrays
for y in (x + x, x - 1, 2 * x, x / 0.5, 1 - x, x**2, 2**x, x % 2, x // 2, -x, +x, abs(x), x + array, x * array):
    assert_type(y, nc.Tensor)
    assert y.shape == (2, 3)
assert_type(x @ x.T, nc.Tensor)
assert_type(x == 1, nc.Tensor)
assert_type(x < x, nc.Tensor)
assert_type((x > 0) & (x < 2) | ~(x == 1), nc.Tensor)
x += 1
assert_type(x, nc.Tensor)

# ---- indices and assignment
rows = nc.tensor([0, 1])
for part in (x[0], x[:, 1], x[..., None], x[rows], x[x > 0], x[rows, rows], x[[0, 1]], x[array > 0]):
    assert_type(part, nc.Tensor)
x[0, 1] = 5.0
x[rows] = nc.zeros(3)
for row in x:
    assert_type(row, nc.Tensor)

# ---- functions
assert_type(nc.sum(x, axis=0, keepdims=True), nc.Tensor)
assert_type(x.mean(axis=(0, 1)), nc.Tensor)
assert_type(nc.where(x > 0, x, 0.0), nc.Tensor)
assert_type(nc.exp([0.0, 1.0]), nc.Tensor)
assert_type(nc.concat([x, x], axis=0), nc.Tensor)
assert_type(nc.stack((x, x)), nc.Tensor)
assert_type(nc.split(x, sections=2, axis=0), tuple[nc.Tensor, ...])
assert_type(nc.meshgrid(x[0], x[1]), tuple[nc.Tensor, ...])
assert_type(nc.broadcast_arrays(x, 1.0), tuple[nc.Tensor, ...])
assert_type(nc.topk(x, 2), tuple[nc.Tensor, nc.Tensor])
assert_type(nc.einsum("ij,kj->ik", x, x), nc.Tensor)
assert_type(nc.reshape(x, (3, 2)), nc.Tensor)
assert_type(x.reshape(-1), nc.Tensor)
assert_type(nc.random.normal((2,)), nc.Tensor)

# ---- results with names
unique = nc.unique_all(nc.tensor([3, 1, 3]))
assert_type(unique.values, nc.Tensor)
assert_type(unique.inverse_indices, nc.Tensor)
values, counts = nc.unique_counts(nc.tensor([3, 1, 3]))
assert_type(values, nc.Tensor)
assert counts.tolist() == [1, 2]

# ---- dtypes and constants
for dtype in (nc.bool, nc.int64, nc.bfloat16, nc.float32, nc.complex64, nc.complex128, x.dtype):
    assert_type(dtype, nc.DType)
assert_type(nc.result_type(x, 1), nc.DType)
assert_type(nc.finfo(nc.float32).eps, float)
assert_type(nc.iinfo(nc.int8).max, int)
assert_type(nc.isdtype(nc.float32, "real floating"), bool)
assert_type(nc.pi, float)

# ---- sizes serve Python and NumPy
assert_type(x.ndim, int)
assert np.zeros(x.shape).shape == x.numpy().shape
assert [k for k in range(x.shape[0])] == [0, 1]
assert_type(nc.zeros((x.shape[0], 2)), nc.Tensor)

# ---- leaving for Python and NumPy
assert_type(float(x[0, 0]), float)
assert_type(int(rows[1]), int)
assert_type(bool(nc.all(x > 0)), bool)
assert_type(x[0, 0].item(), Any)
assert isinstance(x.numpy(), np.ndarray)
assert np.asarray(x).shape == np.exp(x).shape
assert_type(nc.asarray(array), nc.Tensor)
assert_type(nc.from_dlpack(array), nc.Tensor)
