"""Random numbers: the module `nacre.api.random`, by the name that users import."""

import sys
from typing import TYPE_CHECKING

import nacre

if TYPE_CHECKING:
    from nacre.api.random import *
else:
    sys.modules[__name__] = nacre.random
