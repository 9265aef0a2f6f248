"""Valid calls of the public callables: those of the examples in their docstrings, with the arguments they give."""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import nacre as nc
from nacre import data, deploy, nn, optim, train
from nacre.nn import functional
from surface import CALLABLES, METHODS

GIVEN: dict[str, Any] = {
    "nc": nc,
    "nn": nn,
    "np": np,
    "optim": optim,
    "data": data,
    "deploy": deploy,
    "train": train,
    "F": functional,
}


class Call(NamedTuple):
    """A call that works: the callable in full (`nacre.nn.Linear`), what is called, and its arguments."""

    name: str
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def calls(name: str) -> Iterator[Call]:
    """The calls of one public callable in its own examples."""
    held = CALLABLES.get(name) or METHODS[name]
    documented = inspect.getdoc(held) or ""
    if name in METHODS and ">>>" not in documented:
        owner = CALLABLES[name.rpartition(".")[0]]
        documented = inspect.getdoc(owner) or ""
    names = dict(GIVEN)
    for example in doctest.DocTestParser().get_examples(documented):
        try:
            tree = ast.parse(example.source)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield from _call(name, held, node, names)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            exec(compile(tree, "<example>", "exec"), names)


def _call(name: str, held: Any, node: ast.Call, names: dict[str, Any]) -> Iterator[Call]:
    def value(part: ast.expr) -> Any:
        return eval(compile(ast.Expression(part), "<example>", "eval"), names)

    if not isinstance(node.func, ast.Attribute | ast.Name):
        return
    last = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    if last != name.rpartition(".")[2] or any(k.arg is None for k in node.keywords):
        return
    try:
        function = value(node.func)
        if inspect.unwrap(getattr(function, "__func__", function)) is not inspect.unwrap(held):
            return
        named = {str(k.arg): value(k.value) for k in node.keywords}
        yield Call(name, function, tuple(value(a) for a in node.args), named)
    except Exception:  # an argument is made of what only the example's own functions know
        return
