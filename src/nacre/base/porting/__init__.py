"""Names of PyTorch, NumPy, JAX and TensorFlow: the code to write in Nacre, or why there is none."""
