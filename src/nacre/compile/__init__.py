"""From graphs to executables: simplify, fuse, lower, plan; and the executor."""
