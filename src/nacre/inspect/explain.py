"""`explain`: every stage of a function's compilation as text, for jitted and other functions.

>>> import nacre as nc
>>> f = nc.jit(lambda x: nc.exp(x) * 2 + 1)
>>> explanation = explain(f, nc.ones((2, 3)))
>>> print(explanation.clusters)
1  exp, mul, add  over [2, 3]
"""

from __future__ import annotations

from typing import Any, cast

from nacre.base.boundary import publish_all
from nacre.compile.explanation import Explanation
from nacre.transform.jit import Jitted, jit

__all__ = ["Explanation", "explain"]


def explain(function: Any, *args: Any, **kwargs: Any) -> Explanation:
    """Compile a function for these arguments, without running it, and return every stage as text.

    A function that is not jitted is jitted first.  Raises TraceError for a function that cannot be traced.

    >>> from nacre.inspect.explain import explain
    >>> print(explain(lambda x: nc.sum(x * x), nc.ones(3)).clusters)
    1  mul, sum  over [3], reducing axes [0]
    """
    jitted: Jitted[..., Any] = cast("Any", function) if isinstance(function, Jitted) else jit(function)
    return jitted.explain(*args, **kwargs)


publish_all(__name__)
