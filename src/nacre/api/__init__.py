"""The public namespace: tensors and everything that is done with them."""

from nacre.compile import executor as executor  # registers what runs operations
