"""The errors of converted code: what cannot become part of a program, with the line and what to write instead."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from nacre.base.errors import ArgumentError, DTypeError, Error, ShapeError, TraceError, explain
from nacre.transform.autograph import examples
from nacre.transform.autograph.examples import RewriteExample
from nacre.transform.autograph.forms import Opened, common
from nacre.transform.autograph.side_effects import SideEffects
from nacre.transform.autograph.statements import SourcePlace, Statement

RECORDED: Final = "The condition is traced, so both branches are recorded, and a loop's body once for all iterations."


def at(place: SourcePlace, line: int) -> str:
    """A line of a function, for messages."""
    return f"{os.path.basename(place.file)}:{line}, in {place.name}"


def require_no_effects(place: SourcePlace, statement: Statement, effects: SideEffects) -> None:
    """Raise TraceError if Python code that was recorded has changed an object that existed before."""
    for name, value, which in list(effects.changed()):
        if isinstance(value, FunctionType):
            what = f"a function that `{name}` leads to assigns `{which}`"
            raise side_effect(place, statement, statement.line, what, examples.VARIABLE_ASSIGNED)
        written = [w for w in statement.writes if w.root == name]
        line = written[0].line if written else statement.line
        kind = _kind_of(value)
        what = f"it changes {kind} that `{name}` leads to"
        if written:
            what = f"it changes `{written[0].text}`"
            if written[0].is_call:
                what = f"`{written[0].text}` changes {kind}"
        raise side_effect(place, statement, line, what, _changed_example(value))


def _kind_of(value: Any) -> str:
    """An object for messages: a class, or by its class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = cast("type[Any]", type(value))
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"an object of {kind.__name__}"


def _changed_example(value: Any) -> RewriteExample:
    """The example for a change of an object."""
    if isinstance(value, list | set | deque):
        return examples.LIST_CHANGED
    if isinstance(value, np.ndarray):
        return examples.ARRAY_CHANGED
    if isinstance(value, Iterator):
        return examples.ITERATOR_ADVANCED
    return examples.ITEM_CHANGED if isinstance(value, dict) else examples.ATTRIBUTE_CHANGED


def side_effect(place: SourcePlace, statement: Statement, line: int, what: str, example: RewriteExample) -> TraceError:
    """The error for code that is recorded and changes an object of Python."""
    return TraceError(
        explain(
            f"{statement.kind}: code that depends on traced values must not change objects of Python; {what} "
            f"({at(place, line)})",
            example.wrong,
            f"{RECORDED}\n  A change of an object would happen once, while the function is traced, whatever the "
            "tensors hold.",
            example.right,
        )
    )


def append_refused(place: SourcePlace, statement: Statement, line: int, name: str) -> TraceError:
    """The error for a list that gets a number of items which nothing limits."""
    return TraceError(
        explain(
            f"{statement.kind}: the number of items appended to `{name}` must have a limit, in a loop of the program "
            f"({at(place, line)})",
            "@nc.jit\ndef f(x):\n    steps = []\n    while x.sum() > 1:\n        x = x / 2\n        steps.append(x)\n"
            "    return nc.stack(steps)",
            "The size of a result is known before the program runs; how often this loop runs, or whether this branch\n"
            "  is taken, is not.",
            "@nc.jit\ndef f(x):\n    steps = []\n    while x.sum() > 1:\n"
            "        nc.set_loop_options(max_iterations=100)\n        x = x / 2\n        steps.append(x)\n"
            "    return nc.stack(steps, size=100), len(steps)      # zeros behind the items",
        )
    )


def shared(place: SourcePlace, statement: Statement, name: str) -> TraceError:
    """The error for a list that a loop appends to and that has other names."""
    return TraceError(
        explain(
            f"{statement.kind}: a list that a loop of the program appends to must have one name; `{name}` has another, "
            f"or is an argument or an item ({at(place, statement.line)})",
            "@nc.jit\ndef f(x, steps):\n    for row in x:\n        steps.append(row * 2)\n    return nc.stack(steps)",
            "In the program the list is a tensor, which the loop fills.  Another name would not see the items.",
            "@nc.jit\ndef f(x):\n    steps = []\n    for row in x:\n        steps.append(row * 2)\n"
            "    return nc.stack(steps)",
        )
    )


def mismatch(place: SourcePlace, statement: Statement, name: str, a: Opened, b: Opened) -> Error:
    """The error for a variable that has values of two kinds."""
    types = [o.leaves[0].type for o in (a, b) if len(o.leaves) == 1]
    kind: type[Error] = ArgumentError
    if len(types) == 2 and types[0] is not None and types[1] is not None:
        kind = ShapeError if types[0].shape != types[1].shape else DTypeError
    loop = statement.kind in ("while", "for")
    shown = (
        "the value of the expression"
        if name == VALUE
        else "the function's result"
        if name == statement.result
        else f"`{name}`"
    )
    if loop:
        text = f"{statement.kind}: {shown} must have one type in all iterations; got {a.shown} before the loop and "
        text += f"{b.shown} after an iteration"
    else:
        sides = (
            ("where the rest of the block runs", "where it does not")
            if statement.kind == "rest"
            else ("in one branch", "in the other")
        )
        text = f"if: {shown} must have one type in both branches; got {a.shown} {sides[0]} and {b.shown} {sides[1]}"
    example = _mismatch_example(loop, a, b)
    what = "the loop" if loop else "the branches"
    return kind(
        explain(
            f"{text} ({at(place, statement.line)})",
            example.wrong,
            f"A program has one type for each value, whichever way {what} go{'es' if loop else ''}.",
            example.right,
        )
    )


def _mismatch_example(loop: bool, a: Opened, b: Opened) -> RewriteExample:
    """The example for values of two kinds."""
    if a.value is None or b.value is None:
        return examples.LOOP_NONE if loop else examples.BRANCH_NONE
    if a.structure != b.structure:
        return examples.LOOP_STRUCTURE if loop else examples.BRANCH_STRUCTURE
    pairs = list(zip(a.leaves, b.leaves, strict=True))
    x, y = next(((x, y) for x, y in pairs if common(x, y) is None), pairs[0])
    if x.type is None or y.type is None:
        return examples.LOOP_OBJECT if loop else examples.BRANCH_OBJECT
    if x.type.shape != y.type.shape:
        return examples.LOOP_SHAPE if loop else examples.BRANCH_SHAPE
    if bool in (x.kind, y.kind):
        return examples.LOOP_BOOL if loop else examples.BRANCH_BOOL
    return examples.LOOP_DTYPE if loop else examples.BRANCH_DTYPE


VALUE: Final = "<value>"


def outside(place: SourcePlace, statement: Statement, name: str) -> TraceError:
    """The error for a global or nonlocal name that code which is recorded assigns."""
    what = f"it assigns `{name}`, a variable outside of the function"
    return side_effect(place, statement, statement.line, what, examples.VARIABLE_ASSIGNED)


def raised(place: SourcePlace, statement: Statement) -> TraceError:
    """The error for a `raise` that depends on traced values."""
    return TraceError(
        explain(
            f"raise: an exception must not depend on traced values; got one ({at(place, statement.line)})",
            "@nc.jit\ndef f(x):\n    if nc.any(nc.isnan(x)):\n        raise ValueError('NaN')\n    return x",
            f"{RECORDED}\n  The exception would be raised while the function is traced, whatever the tensors hold.",
            "@nc.jit\ndef f(x):\n    assert not nc.any(nc.isnan(x)), 'NaN'      # checked when the program runs\n"
            "    return x",
        )
    )


def left_by(place: SourcePlace, statement: Statement, fault: BaseException) -> TraceError:
    """The error for an exception that left code which depends on traced values, and that a `try` caught."""
    shown = f"{type(fault).__name__}: {str(fault).splitlines()[0]}" if str(fault) else type(fault).__name__
    if isinstance(fault, SystemExit):
        return TraceError(
            explain(
                f"{statement.kind}: code that depends on traced values must not end Python; got {shown} "
                f"({at(place, statement.line)})",
                "@nc.jit\ndef f(x):\n    if x.sum() > 100:\n        sys.exit(1)\n    return x",
                f"{RECORDED}\n  Python would end while the function is traced, whatever the tensors hold.",
                "@nc.jit\ndef f(x):\n    assert x.sum() <= 100      # checked when the program runs\n    return x",
            )
        )
    return TraceError(
        explain(
            f"{statement.kind}: an exception must not leave code that depends on traced values, also if a `try` or "
            f"`with` around it catches it; got {shown} ({at(place, statement.line)})",
            "@nc.jit\ndef f(x, table):\n    try:\n        if x.sum() > 0:\n            x = x * table['scale']\n"
            "    except KeyError:\n        x = x * 2\n    return x",
            f"{RECORDED}\n  The exception would be caught while the function is traced, whatever the tensors hold.",
            "@nc.jit\ndef f(x, table):\n    scale = table.get('scale', 2)\n    if x.sum() > 0:\n        x = x * scale\n"
            "    return x",
        )
    )


def one_way(place: SourcePlace, statement: Statement) -> TraceError:
    """The error for a function that returns a value on some paths only."""
    return TraceError(
        explain(
            f"return: the function must return a value on all paths; it ends without one on a path that depends on "
            f"traced values ({at(place, statement.line)})",
            "@nc.jit\ndef f(x):\n    if x.sum() > 0:\n        return x",
            "A program has the same results whichever path it takes.",
            "@nc.jit\ndef f(x):\n    if x.sum() > 0:\n        return x\n    return nc.zeros_like(x)",
        )
    )


def unconverted(title: str, place: str) -> str:
    """The message where Python itself requests the truth of a traced value."""
    return explain(
        f"{title} ({place})",
        "@nc.jit\ndef f(x):\n    return sum([row for row in x if row > 0]) + sorted(x)[0]",
        "`if`, `while`, `for`, `assert`, conditional expressions, `and`, `or`, `not`, comparisons, `min`, `max`,\n"
        "  `any` and `all` become part of the program.  The condition of a comprehension, `in`, `match`, `:=` within\n"
        "  `and`, and functions of Python such as sorted and filter do not.",
        "@nc.jit\ndef f(x):\n    return nc.sum(nc.where(x > 0, x, 0.0)) + nc.sort(x)[0]",
    )


def endless(place: SourcePlace, statement: Statement) -> ArgumentError:
    """The error for a loop whose condition never changes."""
    return ArgumentError(
        f"while: the body must change a value that the condition reads, or the loop never ends "
        f"({at(place, statement.line)}); assign it in the body, or use `if` for a single decision"
    )


class _Unbound(threading.local):
    def __init__(self) -> None:
        self.names: dict[tuple[str, str], tuple[Error, bool]] = {}  # errors by function and variable; of two types?


_UNBOUND = _Unbound()


def unbound(fault: NameError) -> Error | None:
    """The error for a variable without a value, if a branch or a loop is why it has none."""
    found = re.search(r"variable '(\w+)'", str(fault))
    step = fault.__traceback__
    if found is None or step is None:
        return None
    while step.tb_next is not None:
        step = step.tb_next
    reader = step.tb_frame.f_code.co_qualname
    functions = [f for f, name in _UNBOUND.names if name == found[1] and f"{reader}.".startswith(f"{f}.")]
    if not functions:
        return None
    error, _ = _UNBOUND.names[max(functions, key=len), found[1]]
    return error.with_traceback(fault.__traceback__)


def _unbound(place: SourcePlace, statement: Statement, name: str) -> TraceError:
    """The error for a variable that has a value on some paths only."""
    loop = statement.kind in ("while", "for")
    where = "before the loop, which may have no iteration" if loop else "in both branches"
    example = examples.LOOP_UNBOUND if loop else examples.BRANCH_UNBOUND
    return TraceError(
        explain(
            f"{'if' if not loop else statement.kind}: `{name}` is read, so it must have a value {where} "
            f"({at(place, statement.line)})",
            example.wrong,
            "Whether the statement runs is not known before the program runs.",
            example.right,
        )
    )


def note_unbound(place: SourcePlace, statement: Statement, name: str) -> None:
    """Remember why a variable has no value: it has one on some paths only."""
    _, differs = _UNBOUND.names.get((place.name, name), (None, False))
    if not differs:
        _UNBOUND.names[place.name, name] = _unbound(place, statement, name), False


def note_mismatch(place: SourcePlace, statement: Statement, name: str, a: Opened, b: Opened) -> None:
    """Remember why a variable has no value: its values have two types."""
    _UNBOUND.names[place.name, name] = mismatch(place, statement, name, a, b), True


def forget_unbound() -> None:
    """A trace begins."""
    _UNBOUND.names.clear()
