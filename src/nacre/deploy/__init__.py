"""Ahead-of-time compilation: programs as executables, shared libraries and objects that need no Python.

>>> from nacre import deploy
>>> deploy.KINDS
('executable', 'shared', 'object')
"""

from nacre.base.boundary import publish_all
from nacre.deploy.compile import KINDS, Deployed, compile

__all__ = ["KINDS", "Deployed", "compile"]

publish_all(__name__, __all__)
