"""Loops in reverse mode: bounded ones, and sums over iterations."""
