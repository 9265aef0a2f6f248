"""Names of NumPy and PyTorch whose meaning is the same in both: other names of functions, short functions, methods."""
