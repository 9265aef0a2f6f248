"""Linear algebra: functions of matrices, and results that have names."""

from __future__ import annotations

from typing import assert_type

import nacre as nc
import nacre.linalg as la
from nacre.linalg import norm, solve

a = nc.tensor([[4.0, 1.0], [1.0, 3.0]])
b = nc.tensor([1.0, 2.0])
x = solve(a, b)
assert_type(x, nc.Tensor)
assert bool(norm(a @ x - b) < 1e-5)

values, vectors = nc.linalg.eigh(a)
assert_type(values, nc.Tensor)
assert_type(vectors, nc.Tensor)
assert_type(nc.linalg.eigh(a).eigenvalues, nc.Tensor)
u, s, vh = la.svd(a, full_matrices=False)
assert_type(u * s @ vh, nc.Tensor)
assert_type(la.svd(a).S, nc.Tensor)
assert_type(la.slogdet(a).logabsdet, nc.Tensor)
assert_type(la.qr(a).Q, nc.Tensor)
assert_type(la.eig(a).eigenvectors, nc.Tensor)
for found in (la.inv(a), la.det(a), la.cholesky(a), la.pinv(a), la.expm(a), la.matrix_power(a, 3), la.trace(a)):
    assert_type(found, nc.Tensor)
assert_type(la.vector_norm(b, ord=1), nc.Tensor)
assert_type(la.matrix_norm(a, ord="fro"), nc.Tensor)
assert_type(la.multi_dot([a, a, a]), nc.Tensor)
assert_type(nc.tensordot(a, a, axes=1), nc.Tensor)
