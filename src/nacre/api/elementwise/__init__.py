"""Functions that compute each element separately.  Names follow the array API standard."""
