"""Graphs that are defined before they run: placeholders, names of values, parts of graphs."""
