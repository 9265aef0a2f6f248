"""The public namespace: tensors and all functions on them.

Importing any name from here loads the whole namespace, so a `Tensor` always has its methods.
"""

from nacre.api import namespace as namespace  # sets the functions of `Tensor`
from nacre.compile.program import executor as executor  # registers the executor of operations
