"""Convolutions and their gradients: direct, Winograd's, and depthwise."""
