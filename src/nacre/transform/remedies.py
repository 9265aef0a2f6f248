"""What would have avoided a variant of a jitted function, for each kind of difference that `reasons` names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

NUMBER: Final = r"-?(?:\d|inf|nan)\S*"
KINDS: Final = (  # a difference, and its remedy, in which \1, \2 … are parts of it; the first one that matches counts
    (r"first call|.* from now on", ""),
    (r"axis (\d+) of argument (\w+)\S* varied.*", r'name the axis: dynamic_shapes={"\2": {\1: nc.Dim("n")}}'),
    (
        r"ax[ie]s .* stays? (?:a number|numbers): .* needs the number",
        "use no number there (nc.where for a branch, nc.fori_loop for a loop), or pad to a few sizes",
    ),
    (r"ax[ie]s (.* of argument \w+).* stays? (?:a number|numbers): .*", r"pad axis \1 to a few sizes"),
    (r"(argument .+): dtype is .*", r"convert \1 to one dtype before the call"),
    (
        r"(argument .+): shape is .*",
        r"pass \1 with one number of axes, and without axes of size 0 or 1 that vary",
    ),
    (r"(.+): (?:dtype|shape) is .*", r"give \1 its type before the first call"),
    (rf"argument (\S+) is {NUMBER}, was {NUMBER}", r"pass \1 as a tensor: nc.tensor(\1)"),
    (r"argument (\S+) is (?:.*, was a tensor .*|a tensor .*, was .*)", r"pass \1 as a tensor in every call"),
    (r"argument (\S+) is a .* of \d+, was a .* of \d+", r"pass \1 as one tensor, as nc.stack makes it"),
    (r"argument (\S+) is .*, was .*", r"jit one function for each value of \1"),
    (r".*(?:argument|positional).*", "pass the same arguments in the same form in every call"),
    (r"gradients are .*", "call it always inside of nc.no_grad(), or always outside"),
    (r"nc\.numerics is .*", "set nc.numerics before the first call"),
    (r".*\.grad ha[sd] been set", "call zero_grad() behind every step, the first one included"),
    (r"(.+)\.requires_grad is .*", r"set \1.requires_grad before the first call"),
    (
        r"\w+\.fingerprint is \(training=(True|False).*, was \(training=(?!\1).*",
        "nothing: training and evaluation are two computations",
    ),
    (r"(\w+)\.fingerprint is .*", r"hold the attribute of \1 that changes in an nc.Variable"),
    (r"(.+) stays a constant: .*", r"pass \1 as a tensor"),
    (r".* another array .*", "hold the numbers in one array, or pass them as an argument"),
    (r"(\S+) is .*", r"pass \1 as an argument, or hold it in an nc.Variable"),
    (r".*", "pass what changes as an argument, or hold it in an nc.Variable"),
)


@cache
def _kinds() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(kind, re.DOTALL), remedy) for kind, remedy in KINDS)


def remedy_of(reason: str) -> str:
    """What would have avoided a variant with this reason; empty where nothing could, as for the first call.

    >>> remedy_of("argument n is 11, was 10")
    'pass n as a tensor: nc.tensor(n)'
    """
    return "; ".join(dict.fromkeys(filter(None, _remedies(reason.split("; ")))))


def _remedies(differences: list[str]) -> Iterator[str]:
    sized = any(re.match(r"ax[ie]s ", d) for d in differences)  # says more than the shape of the argument
    for difference in differences:
        if not (sized and ": shape is " in difference):
            yield next(kind.sub(remedy, difference) for kind, remedy in _kinds() if kind.fullmatch(difference))
