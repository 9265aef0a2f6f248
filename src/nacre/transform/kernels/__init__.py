"""Custom kernels: loops over tensors in plain Python, compiled with the rest of a program."""
