"""Recomputation under a memory budget: which values of a program are dropped and computed again."""
