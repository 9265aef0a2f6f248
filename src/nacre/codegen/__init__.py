"""Code generation: from kernels to LLVM text, and the native driver and entries."""
