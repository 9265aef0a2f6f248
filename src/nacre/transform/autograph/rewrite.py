"""The source transformation: each `if`, `while` and `for` of a function becomes a call with functions as its parts.

A part assigns the names of the function around it by `nonlocal`.  An exit (`return`, `break`, `continue`) inside of a
part sets a flag; the statements behind it run unless a flag is set.  Lines stay the same.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from nacre.base.records import dataclass
from nacre.transform.autograph.expressions import Expressions, lazy
from nacre.transform.autograph.refusal import NotConverted
from nacre.transform.autograph.scopes import (
    APPEND,
    Inner,
    bound,
    declared,
    ends,
    exits,
    has_walrus,
    names_in_tree,
    sees_variables,
    walked,
    writes,
)
from nacre.transform.autograph.source import Definition, parameters
from nacre.transform.autograph.statements import Statement

Block = list[ast.stmt]
ITERABLES = ("range", "enumerate", "zip", "reversed")  # functions that the run-time functions know
NAMED = ("enumerate", "zip")  # those with keywords


@dataclass
class LoopFlags:
    """The flags of a loop that is being rewritten."""

    broken: str
    continued: str


class ScopeNames:
    """New names that do not occur in a function."""

    def __init__(self, tree: ast.AST) -> None:
        self.taken = names_in_tree(tree)
        self.runtime = self.new("autograph")

    def new(self, name: str) -> str:
        """A name that is not taken: this one, or it with a number."""
        found, k = name, 1
        while found in self.taken:
            k += 1
            found = f"{name}_{k}"
        self.taken.add(found)
        return found


def assigned(names: Sequence[str], value: ast.expr, at: ast.AST) -> ast.stmt:
    """`name = … = value`, with the line of another node."""
    made = ast.Assign([ast.Name(name, ast.Store()) for name in names], value)
    return ast.fix_missing_locations(ast.copy_location(made, at))


class AppendBinder(ast.NodeTransformer):
    """Writes `name.append(value)` as an assignment, so that a list is a variable that loops may change."""

    def __init__(self, names: set[str], call: Callable[..., ast.Call]) -> None:
        self.names, self.call = names, call

    def visit(self, node: ast.AST) -> Any:
        """The node with assignments, without inner functions and classes."""
        return node if isinstance(node, Inner) else super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """`name = append_(name, value)`."""
        x = node.value
        if not isinstance(x, ast.Call) or not isinstance(x.func, ast.Attribute) or x.func.attr != "append":
            return node
        root = x.func.value
        if not isinstance(root, ast.Name) or root.id not in self.names or len(x.args) != 1 or x.keywords:
            return node
        if isinstance(x.args[0], ast.Starred):
            return node
        return assigned([root.id], self.call(APPEND, node, root, x.args[0]), node)


class FunctionRewriter:
    """Rewrites the body of one function."""

    def __init__(self, node: Definition, names: ScopeNames, statements: list[Statement], first: str) -> None:
        self.node, self.names, self.statements = node, names, statements
        self.expressions = Expressions(self.call, self.note, first)
        self.depth = 0  # parts around the current statement
        self.loops: list[LoopFlags] = []
        self.returned = self.result = ""
        body = node.body if isinstance(node, ast.FunctionDef) else []
        self.global_names, self.outer_names = declared(body, ast.Global), declared(body, ast.Nonlocal)
        self.local_names = bound(body) - self.global_names - self.outer_names - set(parameters(node))
        binder = AppendBinder(self.local_names | set(parameters(node)), self.call)
        cast("Any", node).body = [binder.visit(each) for each in body] or node.body

    # ---- pieces of the output

    def call(self, name: str, at: ast.AST, *arguments: ast.expr) -> ast.Call:
        """A call of a run-time function."""
        function = ast.Attribute(ast.Name(self.names.runtime, ast.Load()), name, ast.Load())
        made = ast.copy_location(ast.Call(function, list(arguments), []), at)
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset  # errors name the first line
        return ast.fix_missing_locations(made)

    def note(self, statement: Statement) -> int:
        """The number of a statement, by which the run-time functions find it."""
        self.statements.append(statement)
        return len(self.statements) - 1

    def part(self, name: str, body: Block, bound_names: set[str], at: ast.stmt, parameter: str = "") -> ast.stmt:
        """A function with a part of a statement as its body."""
        outer = sorted(bound_names - self.global_names)
        shared = sorted(bound_names & self.global_names)
        head: Block = [ast.Nonlocal(outer)] if outer else []
        head += [ast.Global(shared)] if shared else []
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(parameter)] if parameter else [], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        made: Any = ast.parse("def part():\n    pass").body[0]
        made.name, made.args, made.body = name, arguments, [*head, *(body or [ast.Pass()])]
        return ast.fix_missing_locations(ast.copy_location(made, at))

    def described(self, kind: str, node: ast.stmt, names: set[str], flags: Sequence[str] = ()) -> ast.expr:
        """The number of a statement that binds names, as an expression."""
        loops = [flag for loop in self.loops for flag in (loop.broken, loop.continued)]
        made = Statement(
            kind,
            node.lineno,
            tuple(sorted(names)),
            tuple(sorted(names & (self.global_names | self.outer_names))),
            tuple(writes([node])),
            tuple(flags),
            tuple(loops),
            self.returned,
            self.result,
        )
        return ast.copy_location(ast.Constant(self.note(made)), node)

    def expression(self, node: Any) -> Any:
        """A converted expression, or simple statement."""
        return self.expressions.visit(node)

    # ---- blocks

    def flags_of(self, node: ast.AST) -> list[str]:
        """The flags that a statement may set."""
        found = exits(node)
        flags = [self.returned] if "return" in found else []
        flags += [self.loops[-1].broken] if "break" in found else []
        return flags + ([self.loops[-1].continued] if "continue" in found else [])

    def block(self, statements: Sequence[ast.stmt]) -> Block:
        """Converted statements; those behind a possible exit run only without it."""
        made: Block = []
        rest = list(statements)
        while rest:
            node = rest.pop(0)
            if isinstance(node, ast.If) and exits(node):
                if ends(node.body):
                    node.orelse, rest = [*node.orelse, *rest], []
                elif ends(node.orelse):
                    node.body, rest = [*node.body, *rest], []
            flags = self.flags_of(node)
            made += self.statement(node)
            if isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Raise):
                break
            if flags and rest:
                return made + self.guarded(flags, rest, rest[0])
        return made

    def names_of(self, nodes: Sequence[ast.AST]) -> set[str]:
        """The names that statements assign, and the flags of loops around them that they may set."""
        return bound(nodes).union(*map(self.flags_of, nodes)) | self._result_of(nodes)

    def _result_of(self, nodes: Sequence[ast.AST]) -> set[str]:
        return {self.result} if any("return" in exits(node) for node in nodes) else set()

    def guarded(self, flags: Sequence[str], rest: Sequence[ast.stmt], at: ast.stmt) -> Block:
        """Statements that run only while no flag is set."""
        names = self.names_of(rest)
        number = self.described("rest", at, names | set(flags), flags)
        name = self.names.new(f"rest_{at.lineno}")
        self.depth += 1
        part = self.part(name, self.block(rest), names, at)
        self.depth -= 1
        # a flag is assigned where the rest does not run, so the part must know it
        cast("Any", part).body.append(ast.fix_missing_locations(ast.copy_location(ast.Return(self._all(flags)), at)))
        return [part, ast.copy_location(ast.Expr(self.call("rest", at, number, ast.Name(name, ast.Load()))), at)]

    def _all(self, flags: Sequence[str]) -> ast.expr:
        return ast.Tuple([ast.Name(flag, ast.Load()) for flag in flags], ast.Load())

    # ---- statements

    def statement(self, node: ast.stmt) -> Block:
        """The converted statement."""
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is not None:
            return method(node)
        return [self.expression(node)]

    def of_FunctionDef(self, node: ast.FunctionDef) -> Block:
        """An inner function, converted as well unless it is a generator."""
        node.decorator_list = [self.expression(d) for d in node.decorator_list]
        node.args.defaults = [self.expression(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.expression(d) for d in node.args.kw_defaults]
        if not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in walked(node.body)):
            rewrite(node, self.names, self.statements)
        return [node]

    def of_ClassDef(self, node: ast.ClassDef) -> Block:
        """A class is left as it is."""
        return [node]

    def of_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Block:
        """An `async` function is left as it is."""
        return [node]

    def of_AnnAssign(self, node: ast.AnnAssign) -> Block:
        """An assignment; annotations of local variables do nothing."""
        if not isinstance(node.target, ast.Name):
            return [self.expression(node)]
        if node.value is None:
            return [ast.copy_location(ast.Pass(), node)]
        made = ast.copy_location(ast.Assign([node.target], self.expression(node.value)), node)
        return [ast.fix_missing_locations(made)]

    def of_Global(self, node: ast.stmt) -> Block:
        """Declarations are at the start of the function."""
        return []

    of_Nonlocal = of_Global

    def of_Return(self, node: ast.Return) -> Block:
        """A `return`, or inside of parts the function's result and a flag."""
        value = self.expression(node.value) if node.value is not None else None
        if not self.depth:
            node.value = value
            return [node]
        nothing = ast.copy_location(ast.Constant(None), node)
        return [
            assigned([self.result], value or nothing, node),
            assigned([self.returned], ast.Constant(True), node),
        ]

    def of_Break(self, node: ast.stmt) -> Block:
        """A flag of the loop."""
        return [assigned([self.loops[-1].broken], ast.Constant(True), node)]

    def of_Continue(self, node: ast.stmt) -> Block:
        """A flag of the iteration."""
        return [assigned([self.loops[-1].continued], ast.Constant(True), node)]

    def of_Raise(self, node: ast.Raise) -> Block:
        """A `raise`, before which the run-time function refuses that the condition is traced."""
        number = ast.Constant(self.note(Statement("raise", node.lineno)))
        check = ast.Expr(self.call("raise_", node, number))
        return [*([ast.copy_location(check, node)] if self.depth else []), self.expression(node)]

    def of_Assert(self, node: ast.Assert) -> Block:
        """An `assert`, which may be a check in the program."""
        number = ast.Constant(self.note(Statement("assert", node.lineno)))
        text = ast.copy_location(ast.Constant(ast.unparse(node.test)), node)
        test = self.expression(node.test)
        message = [] if node.msg is None else [lazy(self.expression(node.msg))]
        return [ast.copy_location(ast.Expr(self.call("assert_", node, number, test, text, *message)), node)]

    def of_If(self, node: ast.If) -> Block:
        """A call with both branches as functions."""
        names = self.names_of([*node.body, *node.orelse])
        number = self.described("if", node, names)
        test = self.expression(node.test)
        sides = (("then", node.body), ("otherwise", node.orelse))
        parts: Block = []
        arguments: list[ast.expr] = [number, test]
        self.depth += 1
        for side, body in sides:
            if not body:
                continue
            name = self.names.new(f"{side}_{node.lineno}")
            parts.append(self.part(name, self.block(body), names, node))
            arguments.append(ast.Name(name, ast.Load()))
        self.depth -= 1
        return [*parts, ast.copy_location(ast.Expr(self.call("if_", node, *arguments)), node)]

    def of_While(self, node: ast.While) -> Block:
        """A call with the condition and the body as functions."""
        if has_walrus(node.test):  # the names that it binds are the body's
            leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
            node.body.insert(0, ast.fix_missing_locations(ast.copy_location(leave, node.test)))
            node.test = ast.copy_location(ast.Constant(True), node.test)
        test = lazy(self.expression(node.test))
        return self._loop("while", node, [test], [])

    def of_For(self, node: ast.For) -> Block:
        """A call with the iterable, and the body as a function of an item."""
        item = self.names.new(f"item_{node.lineno}")
        first = assigned([], ast.Name(item, ast.Load()), node.target)
        cast("Any", first).targets = [node.target]
        iterable = self._iterable(node.iter)
        return self._loop("for", node, [iterable], [first], item)

    def _iterable(self, node: ast.expr) -> ast.expr:
        """The iterable of a `for`; of `range`, `enumerate`, `zip` and `reversed` the call of a run-time function."""
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if not isinstance(node, ast.Call) or name not in ITERABLES or (node.keywords and name not in NAMED):
            return self.expression(node)
        given = [self._iterable(x) for x in node.args]
        made = self.call(f"{name}_", node, node.func, *given)
        made.keywords = [ast.keyword(x.arg, self.expression(x.value)) for x in node.keywords]
        return made

    def _loop(
        self, kind: str, node: ast.For | ast.While, arguments: list[ast.expr], first: Block, item: str = ""
    ) -> Block:
        flags = LoopFlags(self.names.new(f"broken_{node.lineno}"), self.names.new(f"continued_{node.lineno}"))
        self.loops.append(flags)
        body = [*first, *node.body]
        names = self.names_of(body) - {flags.continued}
        leaving = set[str]().union(*map(exits, node.body))
        stops = ([flags.broken] if "break" in leaving else []) + ([self.returned] if "return" in leaving else [])
        number = self.described(kind, node, names, stops)
        self.depth += 1
        inner = self.block(body)
        self.depth -= 1
        if "continue" in leaving:
            inner.insert(0, assigned([flags.continued], ast.Constant(False), node))
        self.loops.pop()
        name = self.names.new(f"{kind}_{node.lineno}")
        parts: Block = [assigned([flags.broken], ast.Constant(False), node)] if "break" in leaving else []
        parts.append(self.part(name, inner, names, node, item))
        parts.append(
            ast.copy_location(
                ast.Expr(self.call(f"{kind}_", node, number, *arguments, ast.Name(name, ast.Load()))), node
            )
        )
        if not node.orelse:
            return parts
        if stops:
            return parts + self.guarded(stops, node.orelse, node.orelse[0])
        return parts + self.block(node.orelse)

    def of_With(self, node: ast.With) -> Block:
        """A `with` around converted statements."""
        for each in node.items:
            each.context_expr = self.expression(each.context_expr)
        node.body = self.block(node.body)
        return [node]

    def of_Try(self, node: ast.Try) -> Block:
        """A `try` around converted statements."""
        flags = [flag for inner in node.body for flag in self.flags_of(inner)]
        last = [flag for inner in node.finalbody for flag in self.flags_of(inner)]
        leaving = set[str]().union(*map(exits, (*node.body, *node.handlers, *node.orelse)))
        if leaving and set(last) - {self.returned}:
            what = "leaves a `finally` block by `break` or `continue`, and its `try` statement elsewhere too; move it"
            raise NotConverted(f"{what} behind the statement", node.finalbody[0].lineno)
        self.depth += bool(last)  # the `finally` block may return after a `return` of the others
        node.body = self.block(node.body)
        for handler in node.handlers:
            handler.type = self.expression(handler.type) if handler.type else None
            number = ast.Constant(self.note(Statement("except", handler.lineno)))
            check = ast.copy_location(ast.Expr(self.call("caught_", handler, number)), handler)
            handler.body = [check, *self.block(handler.body)]
        if node.orelse:
            node.orelse = self.guarded(flags, node.orelse, node.orelse[0]) if flags else self.block(node.orelse)
        self.depth -= bool(last)
        left = self._leave(last, node.finalbody[-1]) if last else []
        node.finalbody = [*self.block(node.finalbody), *left]
        return [node]

    def _leave(self, flags: Sequence[str], at: ast.stmt) -> Block:
        """An exit at the end of a `finally` block, which drops the exception that it would raise again."""
        names = [ast.Name(flag, ast.Load()) for flag in dict.fromkeys(flags)]
        tests: list[ast.expr] = [ast.Compare(name, [ast.Is()], [ast.Constant(True)]) for name in names]
        result = None if self.depth else ast.Name(self.result, ast.Load())
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), [*tests])
        leave = ast.If(test, [ast.Return(result)], [])
        return [ast.fix_missing_locations(ast.copy_location(leave, at))]

    of_TryStar = of_Try

    def of_Match(self, node: ast.Match) -> Block:
        """A `match` around converted statements."""
        node.subject = self.expression(node.subject)
        for case in node.cases:
            case.guard = self.expression(case.guard) if case.guard else None
            case.body = self.block(case.body)
        return [node]

    # ---- the whole function

    def function(self) -> None:
        """Convert the function's body in place."""
        node = self.node
        if isinstance(node, ast.Lambda):
            node.body = self.expression(node.body)
            return
        may_return = any("return" in exits(s) for s in node.body if not isinstance(s, ast.Return))
        if may_return:
            self.returned, self.result = self.names.new("returned"), self.names.new("result")
        body = self.block(node.body)
        at = node.body[0]
        head: Block = []
        for kind, names in ((ast.Global, self.global_names), (ast.Nonlocal, self.outer_names)):
            head += [ast.copy_location(kind(sorted(names)), at)] if names else []
        if may_return:
            head.append(assigned([self.returned], ast.Constant(False), at))
            last = node.body[-1]
            value = self.call(
                "result",
                last,
                ast.Constant(self.note(Statement("return", node.lineno))),
                ast.Name(self.returned, ast.Load()),
                lazy(ast.Name(self.result, ast.Load())),
            )
            body.append(ast.fix_missing_locations(ast.copy_location(ast.Return(value), last)))
        node.body = [*head, *body]
        cast("Any", node).bound_names = sorted(self.local_names | {n for n in (self.result,) if n})


def rewrite(node: Definition, names: ScopeNames, statements: list[Statement], first: str = "") -> None:
    """Convert a function in place; the list of its statements is filled."""
    FunctionRewriter(node, names, statements, first).function()


def rewritten(node: Definition, is_method: bool, own: Collection[str] = ()) -> tuple[Definition, str, list[Statement]]:
    """A converted copy of a function, the name of the run-time functions in it, and its statements.

    `own` are names of the file that are not built-in functions.  Raises NotConverted for functions with statements
    that have no conversion.
    """
    made = copy.deepcopy(node)
    seeing = sees_variables(made, own)
    if seeing is not None:
        raise NotConverted(f"calls {ast.unparse(seeing.func)}(), which sees its variables", seeing.lineno)
    names, statements = ScopeNames(made), list[Statement]()
    given = parameters(made)
    rewrite(made, names, statements, given[0] if is_method and given else "")
    return made, names.runtime, statements
