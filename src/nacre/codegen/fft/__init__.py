"""Fourier transforms as LLVM text: their passes, and the rows of numbers around them."""
