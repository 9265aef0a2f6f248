"""Functions that put elements on diagonals, in blocks and in windows."""
