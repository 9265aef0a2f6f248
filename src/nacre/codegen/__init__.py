"""Kernels to LLVM text, and the native driver and entries."""
