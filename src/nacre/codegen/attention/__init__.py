"""Attention and its gradient, without a matrix of scores in memory."""
