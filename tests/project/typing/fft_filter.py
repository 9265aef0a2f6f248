"""A low-pass filter by Fourier transforms, with names from `nacre.fft`."""

from __future__ import annotations

from typing import assert_type

import nacre as nc
import nacre.fft
from nacre.fft import irfft, rfft, rfftfreq


def low_pass(signal: nc.Tensor, limit: float) -> nc.Tensor:
    spectrum = rfft(signal)
    kept = rfftfreq(len(signal)) < limit
    return irfft(nc.where(kept, spectrum, 0.0), len(signal))


times = nc.linspace(0.0, 1.0, 64, endpoint=False)
slow, fast = nc.sin(2 * nc.pi * 3 * times), nc.sin(2 * nc.pi * 25 * times)
filtered = low_pass(slow + fast, 0.2)
assert_type(filtered, nc.Tensor)
assert bool(nc.max(nc.abs(filtered - slow)) < 1e-4)
assert_type(nc.fft.fft(slow, norm="ortho"), nc.Tensor)
assert_type(nacre.fft.fftshift(nc.fft.ifft2(nc.ones((4, 4)))), nc.Tensor)
assert_type(nc.fft.fftn(nc.ones((2, 4)), axes=(0, 1)), nc.Tensor)
