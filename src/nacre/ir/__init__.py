"""The graph IR: primitives, graphs, their text, and rewriting."""
