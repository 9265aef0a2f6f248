"""Linear algebra: the module `nacre.api.linalg`, by the name that users import."""

import sys
from typing import TYPE_CHECKING

import nacre

if TYPE_CHECKING:
    from nacre.api.linalg import *
else:
    sys.modules[__name__] = nacre.linalg
