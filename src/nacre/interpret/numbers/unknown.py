"""The errors where Python requests a number that only the running program knows: why, and what to write instead."""

from __future__ import annotations

from typing import Final, NamedTuple

from nacre.base.errors import UnknownNumber, explain


class Advice(NamedTuple):
    """Code that requests a number, in a function with a number n that a loop counts, and what to write instead."""

    wrong: str
    right: str
    why: str = (
        "The number depends on tensors, so only the running program knows it.  Python's operators work on it, it can\n"
        "  be combined with tensors, be an index of a tensor, and be returned."
    )


COUNTED: Final = "@nc.jit\ndef f(x):\n    n = 0\n    while x.sum() > 1:\n        x, n = x / 2, n + 1\n"
SIZE: Final = Advice(f"{COUNTED}    return nc.zeros((n,))", f"{COUNTED}    return n\n\nnc.zeros((int(f(x)),))")
ITEM: Final = Advice(
    f"{COUNTED}    return x * [0.5, 1.0, 2.0][n]", f"{COUNTED}    return x * nc.tensor([0.5, 1.0, 2.0])[n]"
)
TEXT: Final = Advice(
    f"{COUNTED}    return {{str(n): x}}", f"{COUNTED}    print(n)      # printed when the program runs\n    return n, x"
)
CONVERSION: Final = Advice(
    f"{COUNTED}    return float(n), int(n / 2)",
    f"import math\n{COUNTED}    return n * 1.0, math.trunc(n / 2)      # these have the same values",
)
HASH: Final = Advice(
    f"{COUNTED}    return {{0: x, 1: -x}}.get(n, 0.5 * x)",
    f"{COUNTED}    return x if n == 0 else -x if n == 1 else 0.5 * x",
)
TRUTH: Final = Advice(f"{COUNTED}    return x * bool(n)", f"{COUNTED}    return x * (n != 0)")
POWER: Final = Advice(
    f"{COUNTED}    t = 0.5 * n\n    return x * t**2, x * 2.0**n, x * n**-1",
    f"{COUNTED}    t = 0.5 * n\n    return x * (t * t), x * nc.asarray(2.0) ** n, x * (1 / n)",
    "A whole number to a whole power is part of the program.  The power of floats, and a known negative power, are\n"
    "  not: Python computes them with the C library of the machine, which rounds some results differently.",
)
TENSOR_POWER: Final = Advice(
    f"{COUNTED}    return x**n",
    f"{COUNTED}    return x ** nc.asarray(n, dtype=x.dtype)",
    "x**2 is a product, x**0.5 a square root, and other powers of floats are neither, so the program depends on the\n"
    "  number.  A power that is a tensor is computed in one way, whatever it holds.",
)
RANGE: Final = Advice(
    f"{COUNTED}    for k, i in enumerate(range(n)):\n        x = x + k * i\n    return x",
    f"{COUNTED}    for k in range(n):\n        x = x + k * k\n    return x",
    "A range with bounds that the program computes is the iterable of a `for`, and nothing else.",
)
ADVICE: Final = {
    **dict.fromkeys(("index", "contains", "getitem"), ITEM),
    **dict.fromkeys(("str", "repr", "format"), TEXT),
    **dict.fromkeys(("float", "complex"), CONVERSION),
    **dict.fromkeys(("pow", "rpow"), POWER),
    "range": RANGE,
    "hash": HASH,
    "bool": TRUTH,
    "power": TENSOR_POWER,  # of a tensor
}


def unknown(operation: str, kind: type) -> UnknownNumber:
    """The error where an operation requests a number of a kind that only the program knows."""
    shown = "an int" if kind is int else "a float"
    advice = CONVERSION if operation == "int" and kind is float else ADVICE.get(operation, SIZE)
    title = f"{operation}: the number must be known; got {shown} that a converted loop or branch computes"
    return UnknownNumber(explain(title, advice.wrong, advice.why, advice.right), operation)
