"""Buffer assignment: where values are stored, and which memory they may overwrite."""
