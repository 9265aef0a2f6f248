"""Bytecode: the names that a function reads and assigns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Set
from functools import cache
from itertools import dropwhile
from opcode import EXTENDED_ARG, opname
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

METHODS_BY_ATTRIBUTE: Final = sys.version_info >= (3, 12)  # LOAD_ATTR also loads methods
ASSIGNS: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
STORES: Final = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR"})
LOADS: Final = {  # instructions that read attributes, and the bits of their operands besides the name
    "LOAD_METHOD": 0,
    "LOAD_ATTR": int(METHODS_BY_ATTRIBUTE),
    "LOAD_SUPER_ATTR": 2,
    "IMPORT_FROM": 0,
}
CALLS: Final = frozenset({"CACHE", "PRECALL", "CALL", "CALL_KW", "KW_NAMES", "LOAD_CONST", "LOAD_SMALL_INT"})
PROBES: Final = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller", "vars", "__dict__"})
CATCHES: Final = frozenset({"AttributeError", "Exception", "BaseException"})  # names of what an absent attribute raises
ADDS: Final = frozenset({"append", "extend", "insert", "add", "appendleft", "clear"})  # methods that read nothing


class Names(NamedTuple):
    """The names that code reads and assigns, its inner functions' included.

    A container that the code only adds to (`seen.append(x)`) is not read.  Instructions that change items are among the
    assigned names.  Probed attributes may be absent: the code names them in a text, or handles the error.
    """

    read_globals: frozenset[str]
    read_cells: frozenset[str]
    assigned: frozenset[str]
    set_attributes: frozenset[str]
    read_attributes: frozenset[str]
    probed_attributes: frozenset[str]


@cache
def names_in(code: CodeType) -> Names:
    """The names in code."""
    local = (*code.co_varnames, *(n for n in (*code.co_cellvars, *code.co_freevars) if n not in code.co_varnames))
    kinds = "LOAD_GLOBAL", "LOAD_DEREF", "STORE", "STORE_ATTR", "LOAD_ATTR", "PROBE"
    sets: dict[str, set[str]] = {kind: set() for kind in kinds}
    steps = list(_instructions(code))
    for (name, operand), (then, argument) in zip(steps, [*steps[1:], ("", 0)], strict=True):
        if name == "LOAD_GLOBAL":
            operand = operand >> 1
        if name in STORES:
            sets["STORE"].add(name)
        if name in LOADS:
            sets["LOAD_ATTR"].add(code.co_names[operand >> LOADS[name]])
            continue
        if name not in sets and name not in ASSIGNS:
            continue
        found = local[operand] if name.endswith("DEREF") else code.co_names[operand]
        method = then == "LOAD_METHOD" or (then == "LOAD_ATTR" and METHODS_BY_ATTRIBUTE and argument & 1)
        if method and code.co_names[argument >> METHODS_BY_ATTRIBUTE] in ADDS:
            continue
        if name not in ("STORE_DEREF", "DELETE_DEREF") or found in code.co_freevars:  # else a variable of its own
            sets[name if name in sets else "STORE"].add(found)
    texts = [x for x in code.co_consts if isinstance(x, str) and x.isidentifier()]
    if not PROBES.isdisjoint(code.co_names):
        sets["PROBE"].update(texts)
    if _handles_absence(code, {name for name, _ in steps}):
        sets["PROBE"] |= sets["LOAD_ATTR"]
    sets["LOAD_ATTR"].update(texts)
    inner = [_without(names_in(c), frozenset(code.co_cellvars) & frozenset(c.co_freevars)) for c in inner_codes(code)]
    parts = zip(*([frozenset(found) for found in sets.values()], *inner), strict=True)
    return Names(*(frozenset().union(*part) for part in parts))


def _handles_absence(code: CodeType, steps: Set[str]) -> bool:
    """Whether code may go on where an attribute is absent, by `except` or `suppress`."""
    all_errors = "PUSH_EXC_INFO" in steps and steps.isdisjoint({"CHECK_EXC_MATCH", "WITH_EXCEPT_START"})
    return all_errors or not CATCHES.isdisjoint(code.co_names)


def _without(names: Names, own: frozenset[str]) -> Names:
    """The names of an inner function without variables of the function around it."""
    return names._replace(read_cells=names.read_cells - own, assigned=names.assigned - own)


def _instructions(code: CodeType) -> Iterator[tuple[str, int]]:
    """The instructions of code and their operands."""
    raw, operand = code.co_code, 0
    for k in range(0, len(raw), 2):
        operand = operand << 8 | raw[k + 1]
        if raw[k] == EXTENDED_ARG:
            continue
        if opname[raw[k]] != "CACHE":
            yield opname[raw[k]], operand
        operand = 0


def starts_loop(code: CodeType, at: int) -> bool:
    """Whether the instruction at a position makes the iterator of a `for` statement, or calls what makes it."""
    raw = code.co_code
    names = (opname[raw[k]] for k in range(at, len(raw), 2) if raw[k] != EXTENDED_ARG)
    steps = dropwhile(CALLS.__contains__, names)  # of the call, and of one around it
    return [next(steps, ""), next(steps, "")] == ["GET_ITER", "FOR_ITER"]


def inner_codes(code: CodeType) -> list[CodeType]:
    """The code of the functions that code defines."""
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def within(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions that code defines, and of those that these define."""
    for c in inner_codes(code):
        yield c
        yield from within(c)


def assigns(function: Any) -> bool:
    """Whether a function assigns attributes, or names outside it.  If it never runs, these are watched."""
    own = names_in(function.__code__) if isinstance(function, FunctionType) else None
    return own is not None and bool(own.assigned or own.set_attributes)
