"""Values, variables, and the one way to apply a primitive."""
