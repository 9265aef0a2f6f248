"""Fourier transforms: the module `nacre.api.fft`, by the name that users import."""

import sys
from typing import TYPE_CHECKING

import nacre

if TYPE_CHECKING:
    from nacre.api.fft import *
else:
    sys.modules[__name__] = nacre.fft
