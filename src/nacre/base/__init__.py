"""Foundations of all packages: errors, dtypes, sizes, types, trees, ambient state."""
