"""Converted code: compiled once for each code object, with its free variables, file and lines."""

from __future__ import annotations
import __future__

import ast
import copy
import os
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from nacre.base.exact import exact_key
from nacre.base.locks import forkable
from nacre.base.records import dataclass
from nacre.trace.bytecode import within
from nacre.transform.autograph.refusal import NotConverted, shown_name
from nacre.transform.autograph.rewrite import rewritten
from nacre.transform.autograph.source import Definition, Source, source_of
from nacre.transform.autograph.statements import SourcePlace, Statement

RUNTIME: Final = "the run-time functions of autograph"  # a constant in compiled code, which they replace
FUTURES: Final = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)

_lock = forkable()
_known: dict[int, tuple[CodeType, Converted | NotConverted]] = {}  # by identity: a code has a slow hash
_made: dict[int, CodeType] = {}  # converted code, and the code within it


@dataclass(frozen=True, eq=False)
class Converted:
    """A converted function: its code, and its text for readers."""

    code: CodeType
    text: str


def converted(code: CodeType, runtime: Callable[[SourcePlace, list[Statement]], Any]) -> Converted:
    """The converted form of a code object.  Raises NotConverted, with the reason, if there is none."""
    known = _known.get(id(code))
    if known is None:
        try:
            found: Converted | NotConverted = _convert(code, runtime)
        except NotConverted as fault:
            found = fault
        except RecursionError:
            found = NotConverted(f"{shown_name(code)} is nested too deeply")
        with _lock:
            known = _known.setdefault(id(code), (code, found))
            if isinstance(found, Converted) and known[1] is found:
                _made.update({id(c): c for c in (found.code, *within(found.code))})
    if isinstance(known[1], NotConverted):
        raise NotConverted(*known[1].args)
    return known[1]


def is_converted(code: CodeType) -> bool:
    """Whether code is the result of a conversion."""
    return id(code) in _made


def replaced(code: CodeType, old: CodeType, new: CodeType) -> CodeType:
    """Code in which the code of an inner function is another one."""
    if code is old:
        return new
    consts = tuple(replaced(c, old, new) if isinstance(c, CodeType) else c for c in code.co_consts)
    if all(a is b for a, b in zip(consts, code.co_consts, strict=True)):
        return code
    made = code.replace(co_consts=consts)
    if is_converted(code):
        with _lock:
            _made[id(made)] = made
    return made


def _convert(code: CodeType, runtime: Callable[[SourcePlace, list[Statement]], Any]) -> Converted:
    source = source_of(code)
    try:
        made, name, statements = rewritten(source.node, bool(source.classes), {*source.own, *code.co_freevars})
    except NotConverted as fault:
        what, line = fault.args
        place = f"{os.path.basename(code.co_filename)}:{line}"
        raise NotConverted(f"{code.co_qualname} cannot become part of a program, because it {what} ({place})") from None
    _require_same(_compiled(source.node, name, source, code), code)
    text = ast.unparse(ast.fix_missing_locations(made))
    compiled = _compiled(copy.deepcopy(made), name, source, code)
    functions = runtime(SourcePlace(code.co_qualname, code.co_filename), statements)
    return Converted(_finished(compiled, functions, code), text)


def _finished(compiled: CodeType, functions: Any, original: CodeType, whole: CodeType | None = None) -> CodeType:
    """Code with the run-time functions as a constant; parts have the names of the function that they are parts of."""
    whole = whole or compiled
    consts: list[Any] = []
    for c in compiled.co_consts:
        if isinstance(c, CodeType):
            named = c.replace(co_qualname=c.co_qualname.replace(whole.co_qualname, original.co_qualname, 1))
            consts.append(_finished(c, functions, original if c.co_name.startswith(PARTS) else named, whole))
        else:
            consts.append(functions if isinstance(c, str) and c == RUNTIME else c)
    return compiled.replace(co_consts=tuple(consts), co_name=original.co_name, co_qualname=original.co_qualname)


PARTS: Final = ("then_", "otherwise_", "rest_", "while_", "for_")


def _compiled(made: Definition, name: str, source: Source, code: CodeType) -> CodeType:
    """The compiled function, inside of a function that has its free variables, and of its classes."""
    _prepare(made, name)
    made.args.defaults = []
    made.args.kw_defaults = [None] * len(made.args.kwonlyargs)
    for each in (*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs, made.args.vararg, made.args.kwarg):
        if each is not None:
            each.annotation = None
    if isinstance(made, ast.FunctionDef):
        made.decorator_list, made.returns, made.name = [], None, "converted"  # its own name is not the factory's
    inside: ast.stmt = made if isinstance(made, ast.FunctionDef) else ast.Expr(made)
    factory: Any = ast.parse("def factory():\n    pass").body[0]
    factory.body = [*_bindings(code.co_freevars), inside]
    whole: Any = factory
    for cls in reversed(source.classes):
        outer: Any = ast.parse(f"class {cls}:\n    pass").body[0]
        outer.body = [whole]
        whole = outer
    known: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in source.imports if name != "*"]
    module = ast.fix_missing_locations(ast.Module([*known, whole], []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = compile(module, code.co_filename, "exec", code.co_flags & FUTURES, dont_inherit=True)
        except SyntaxError as fault:
            raise NotConverted(f"{shown_name(code)}: {fault.msg} in line {fault.lineno}") from None
    made_codes = [c for c in within(compiled) if c.co_name == "factory"]
    found = next((c for f in made_codes for c in f.co_consts if isinstance(c, CodeType)), None)
    if (
        found is None
        or found.co_freevars != code.co_freevars
        or found.co_varnames[: _count(code)] != code.co_varnames[: _count(code)]
    ):
        raise NotConverted(f"the source of {shown_name(code)} has other variables than its code; load it again")
    return found


def _require_same(compiled: CodeType, code: CodeType) -> None:
    """Raise NotConverted unless code is what its source compiles to now."""
    if is_converted(code) or any(name.startswith("@py") for name in (*code.co_names, *code.co_varnames)):
        return  # an inner function that is converted already, or one whose assertions pytest has rewritten
    same = compiled.co_code == code.co_code and compiled.co_names == code.co_names
    if not same or len(compiled.co_consts) != len(code.co_consts):
        raise _changed(code)
    for a, b in zip(compiled.co_consts, code.co_consts, strict=True):
        if isinstance(a, CodeType) and isinstance(b, CodeType):
            _require_same(a, b)
        elif exact_key(a) != exact_key(b) and not (isinstance(a, str) and "<locals>" in a):  # a name of a class
            raise _changed(code)


def _changed(code: CodeType) -> NotConverted:
    return NotConverted(
        f"the source of {shown_name(code)} is not that of its code: the file has changed, or an import hook has "
        "changed the code; load it again, without the hook"
    )


def _count(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount


def _bindings(names: tuple[str, ...] | list[str]) -> list[ast.stmt]:
    """A statement that makes names local and does nothing."""
    if not names:
        return []
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    return [ast.If(ast.Constant(0), [ast.Assign(targets, ast.Constant(None))], [])]


def _prepare(made: Definition, name: str) -> None:
    """Give functions their local names, which only parts of them bind, and the run-time functions as a constant."""
    for node in list(ast.walk(made)):
        if isinstance(node, ast.FunctionDef) and hasattr(node, "bound_names"):
            is_text = (
                bool(node.body) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            )
            for each in (bindings := _bindings(node.bound_names)):  # type: ignore[attr-defined]
                ast.fix_missing_locations(ast.copy_location(each, node))
            at = int(is_text) + sum(isinstance(s, ast.Global | ast.Nonlocal) for s in node.body[:3])
            node.body[at:at] = bindings
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            node.value = ast.copy_location(ast.Constant(RUNTIME), node.value)
