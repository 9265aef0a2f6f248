"""Graph passes: each takes a graph and gives one that computes the same bits."""
