"""Trees of tensors: the module `nacre.api.tree`, by the name that users import."""

import sys
from typing import TYPE_CHECKING

import nacre

if TYPE_CHECKING:
    from nacre.api.tree import *
else:
    sys.modules[__name__] = nacre.tree
