"""Sparse matrices: the module `nacre.api.sparse`, by the name that users import."""

import sys
from typing import TYPE_CHECKING

import nacre

if TYPE_CHECKING:
    from nacre.api.sparse import *
else:
    sys.modules[__name__] = nacre.sparse
