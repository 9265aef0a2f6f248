"""Python numbers that only the running program knows, or that are inputs of the graph that is being recorded."""
