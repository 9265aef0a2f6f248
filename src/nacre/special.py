"""Special functions: the module `nacre.api.special`, by the name that users import."""

import sys
from typing import TYPE_CHECKING

import nacre

if TYPE_CHECKING:
    from nacre.api.special import *
else:
    sys.modules[__name__] = nacre.special
