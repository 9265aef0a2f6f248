"""Reverse mode through loops whose number of iterations is found while they run."""
