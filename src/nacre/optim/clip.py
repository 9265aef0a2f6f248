"""Gradient clipping: the functions of `nacre.nn.utils`."""

from nacre.nn.clip import clip_grad_norm_ as clip_grad_norm_
from nacre.nn.clip import clip_grad_value_ as clip_grad_value_

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
]
