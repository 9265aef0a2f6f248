"""Graphs to executables: simplify, fuse, lower, plan; the executor."""
