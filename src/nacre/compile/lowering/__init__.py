"""Lowering: clusters of equations become kernels, and kernels become code for every size."""
