"""A native subset of Python: typed functions and structures that become LLVM text (`docs/native_python.md`)."""
