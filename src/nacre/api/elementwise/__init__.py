"""Functions that compute each element by itself.  Names follow the array API standard."""
