"""Buffer assignment: where values are stored, and what they may overwrite."""
