"""The refusal of Python that is not a kernel: with the file, the line, the construct, and what to write instead."""

from __future__ import annotations

import ast

from nacre.base.errors import GraphError

LONGEST = 60  # characters of a construct that are shown


class Refused(Exception):
    """A construct that a kernel cannot have: what must hold, and what to write; `node` is the construct."""

    def __init__(self, node: ast.AST, required: str, remedy: str, got: str | None = None) -> None:
        super().__init__(required, remedy)
        self.node, self.required, self.remedy, self.got = node, required, remedy, got


def text_of(node: ast.AST) -> str:
    """The first line of a construct, as Python."""
    text = ast.unparse(node).strip().splitlines()[0]
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def error_of(fault: Refused, name: str, file: str) -> GraphError:
    """The error for a refused construct of a file."""
    got = f"`{text_of(fault.node)}`" if fault.got is None else fault.got
    line = getattr(fault.node, "lineno", 0)
    return GraphError(f"kernel {name} ({file}:{line}): {fault.required}; got {got}; {fault.remedy}")
