"""Public transformations of functions."""
