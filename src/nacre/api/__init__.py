"""The public namespace: tensors and everything that is done with them.

Whatever is imported from here brings all of it, so that no `Tensor` is without its methods.
"""

from nacre.api import namespace as namespace  # gives `Tensor` its functions
from nacre.compile import executor as executor  # registers what runs operations
