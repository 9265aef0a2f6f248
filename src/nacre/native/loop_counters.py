"""Counters of loops that LLVM does not recognise, so that it leaves the addresses in a loop as they are written.

LLVM would rewrite them.  In nests that takes a third of the time of compilation, and the code is longer and no faster:
operands have a base each and share one index.
"""

from __future__ import annotations

from typing import Final

STEP: Final = (
    " = add nsw i64 "  # the step of a loop's counter in texts of `native.text`, which has no other such addition
)
ROTATION: Final = "@llvm.fshl.i64"


def with_hidden_counters(text: str) -> str:
    """A module's text in which each counter goes through a rotation by 0 bits, which is no instruction."""
    before, *loops = text.split(STEP)
    parts = [before]
    for rest in loops:
        name = parts[-1][parts[-1].rindex("%") :]
        terms, _, rest = rest.partition("\n")
        hidden = f"{name} = call i64 {ROTATION}(i64 {name}.seen, i64 {name}.seen, i64 0)"
        parts.append(f".seen{STEP}{terms}\n  {hidden}\n{rest}")
    if loops and f"{ROTATION}(i64," not in text:
        parts.append(f"declare i64 {ROTATION}(i64, i64, i64)\n")
    return "".join(parts)
