"""Maxima and sums of sliding windows, and their gradients."""
