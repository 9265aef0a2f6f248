"""Layers and losses as modules; `nn` holds them all."""
