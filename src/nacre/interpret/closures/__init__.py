"""Closure conversion of staged functions."""
