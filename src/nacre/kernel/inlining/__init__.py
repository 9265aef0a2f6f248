"""Pointwise code inside of other kernels: where it may be, and the kernels with it."""
