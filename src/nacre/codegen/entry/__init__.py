"""Native code around the kernels: entry points from Python, the driver of plans, and the tape's stubs."""
