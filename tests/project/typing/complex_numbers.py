"""Complex numbers: parts, polar forms, arithmetic with Python's, gradients."""

from __future__ import annotations

from typing import assert_type

import nacre as nc

z = nc.tensor([1 + 2j, 3 - 1j])
for w in (z * 2j, 1j - z, z / z, z**2, nc.conj(z), z.conj(), nc.exp(z), nc.complex(z.real, z.imag)):
    assert_type(w, nc.Tensor)
for part in (nc.real(z), nc.imag(z), nc.angle(z), nc.abs(z), z.real, z.imag, nc.view_as_real(z)):
    assert_type(part, nc.Tensor)
assert_type(nc.polar(nc.abs(z), nc.angle(z)), nc.Tensor)
assert_type(nc.view_as_complex(nc.view_as_real(z)), nc.Tensor)
assert_type(complex(z[0]), complex)
assert_type(z.mH if z.ndim > 1 else z, nc.Tensor)


def length(z: nc.Tensor) -> nc.Tensor:
    return nc.sum(nc.abs(z) ** 2)


slope = nc.grad(length)(z)
assert_type(slope, nc.Tensor)
assert nc.abs(slope - 2 * z).max().item() < 1e-5
