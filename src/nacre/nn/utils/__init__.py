"""Functions on a module's parameters: gradient clipping, parameters as one vector, normalised weights.

Names, arguments, and names in state dicts are those of PyTorch's `torch.nn.utils`.
"""

from nacre.base.boundary import publish_all
from nacre.nn.clip import clip_grad_norm_, clip_grad_value_
from nacre.nn.reparametrise import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from nacre.nn.vector import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]

publish_all(__name__, __all__)
