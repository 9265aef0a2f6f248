"""Expressions of Python as values of a kernel: loads, operators, conditions, calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any, cast

from nacre.base.dims import Size, lower, product, upper
from nacre.base.dtypes import int64
from nacre.base.errors import ShapeError
from nacre.kernel.ast import Const, Expr, If, Load, Stmt, Store, apply, size_expr
from nacre.kernel.python import functions, operators
from nacre.kernel.python.flow import loop_targets
from nacre.kernel.python.frame import CallFrame, FunctionSource, KernelWriter
from nacre.kernel.python.reached import SizeCheck, holds, implied
from nacre.kernel.python.refusal import Refused, error_of
from nacre.kernel.python.scalars import (
    TRUTH,
    Array,
    Known,
    Scalar,
    ScalarType,
    Value,
    common,
    converted,
    described,
    is_number,
    is_representable,
    number,
    of_size,
    truth,
)

DEEPEST = 16  # nested calls of Python functions


def _is_librarys(object: Any) -> bool:
    """Whether an object is a library that kernels know, whose numbers do not change."""
    return isinstance(object, ModuleType) and object.__name__.partition(".")[0] in ("math", "nacre", "numpy")


class ExpressionTranslator:
    """Translates expressions of the frame in progress.

    `inlined` writes the body of a called function, and `reduced` a sum; they belong to statements.
    """

    def __init__(
        self,
        w: KernelWriter,
        inlined: Callable[[CallFrame, ast.Call], Value],
        reduced: Callable[[ast.Call], Scalar],
    ) -> None:
        self.w, self.inlined, self.reduced = w, inlined, reduced
        self.direct = False  # in the condition of a loop, locals are read where it is evaluated

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node)
            case ast.BinOp():
                a, b = self.operands(node.left, node.right)
                return operators.binary(node.op, a, b, node)
            case ast.UnaryOp(op=ast.Not()):
                return operators.unary(node.op, self.condition(node.operand), node)
            case ast.UnaryOp():
                return operators.unary(node.op, self.scalar(node.operand), node)
            case ast.Compare():
                return self.comparison(node)
            case ast.BoolOp():
                return self.logic(isinstance(node.op, ast.And), node.values, node, self.scalar)
            case ast.IfExp():
                return self.choice(node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Tuple():
                return tuple(self.value(e) for e in node.elts)
            case _:
                raise Refused(
                    node,
                    "an expression of a kernel must be made of numbers, elements of arrays, operators and functions",
                    "write a loop over elements",
                )

    def scalar(self, node: ast.expr) -> Scalar:
        """The value of an expression that must be a number; that of an array without axes is its element."""
        return self.number(self.value(node), node)

    def number(self, found: Value, node: ast.AST) -> Scalar:
        """A value that must be a number."""
        if isinstance(found, Array) and not found.shape:
            return self.load(found, node)
        if not isinstance(found, Scalar):
            raise Refused(node, "the expression must be a number", "index the array, as in x[i]", described(found))
        return found

    def operands(self, *nodes: ast.expr) -> list[Scalar]:
        """Operands that must be numbers, in order."""
        return [self.scalar(n) for n in nodes]

    def condition(self, node: ast.expr) -> Scalar:
        """The value of an expression as a condition."""
        if isinstance(node, ast.BoolOp):
            return self.logic(isinstance(node.op, ast.And), node.values, node, self.condition)
        return truth(self.scalar(node))

    # ---- names and attributes

    def constant(self, node: ast.Constant) -> Value:
        """A literal."""
        if isinstance(node.value, bool | int | float):
            return self.known(node.value, node)
        if node.value is None or isinstance(node.value, str):
            return Known(node.value)
        raise Refused(node, "a literal must be a real number", "write an int, a float or a bool")

    def name(self, node: ast.Name) -> Value:
        """A local, a parameter, or a name of the module."""
        frame = self.w.frame
        if self.direct and node.id in frame.memory and node.id not in frame.env:
            found = self.w.read(node.id, node, direct=True)
        else:
            found = frame.env.get(node.id) or self.w.read(node.id, node)
        if found is not None:
            return found
        if node.id in frame.homes or node.id in loop_targets(frame.definition.node):
            raise Refused(
                node,
                "a local must have a value on every way to its use",
                f"assign it before, as in {node.id} = 0",
                node.id,
            )
        return self.known(frame.definition.object(node), node)

    @staticmethod
    def known(object: Any, node: ast.AST) -> Value:
        """An object of the module: a number of it is a constant."""
        if is_number(object):
            if not is_representable(object):
                raise Refused(node, "an integer must be an int64 or a uint64", "write a float", str(object))
            return number(object)
        if isinstance(object, list | dict | set):
            raise Refused(
                node, "a name of the module must be a number or a function", "pass an array as a parameter",
                f"a {type(cast('Any', object)).__name__}",
            )  # fmt: skip
        return Known(object)

    def attribute(self, node: ast.Attribute) -> Value:
        """`x.shape`, `x.ndim`, `x.size`, or a name of a module."""
        held = self.value(node.value)
        if isinstance(held, Array):
            match node.attr:
                case "shape":
                    return tuple(map(of_size, held.shape))
                case "ndim":
                    return number(len(held.shape))
                case "size":
                    return of_size(product(held.shape))
                case "dtype":
                    return Known(held.dtype)
                case _:
                    raise Refused(
                        node,
                        "an attribute of an array must be shape, ndim, size or dtype",
                        "write a loop over elements",
                    )
        objects, name = self.w.frame.definition.objects, ast.unparse(node)
        if isinstance(held, Known) and name in objects:
            return self.known(objects[name], node)
        found = getattr(held.object, node.attr, None) if isinstance(held, Known) else None
        if isinstance(held, Known) and is_number(found) and not _is_librarys(held.object):
            raise Refused(node, "a number must be an attribute of a name of the module", "write the name itself")
        if found is not None:
            return self.known(found, node)
        raise Refused(node, "an attribute must be one of an array or of a module", "write a function of numbers")

    # ---- elements

    def subscript(self, node: ast.Subscript) -> Value:
        """An element of an array, a row of one, or a part of a tuple."""
        held = self.value(node.value)
        if isinstance(held, tuple):
            place = self.scalar(node.slice).whole
            if place is None or not -len(held) <= place < len(held):
                raise Refused(node, f"the index of a tuple of {len(held)} must be a number in it", "write a number")
            return held[place]
        found = self.element(node, held)
        return found if found.shape else self.load(found, node)

    def element(self, node: ast.Subscript, held: Value) -> Array:
        """The place of a subscript of an array."""
        if not isinstance(held, Array):
            raise Refused(node, "only an array or a tuple has elements", "pass an array", described(held))
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > len(held.shape):
            raise Refused(
                node, f"an array of {len(held.shape)} axes must have as many indices", "index each axis once",
                f"{len(parts)} indices",
            )  # fmt: skip
        places: list[Expr] = []
        for part, size in zip(parts, held.shape, strict=False):
            if isinstance(part, ast.Slice | ast.Starred) or (isinstance(part, ast.Constant) and part.value is ...):
                raise Refused(part, "an index must be an integer", "write a loop over elements, as in x[i]")
            places.append(self.place(part, size))
        return Array(held.buffer, held.dtype, held.shape[len(parts) :], (*held.index, *places))

    def place(self, node: ast.expr, size: Size) -> Expr:
        """An index along an axis; a negative one that is known counts from the end."""
        x = self.scalar(node)
        if not x.dtype.is_integer:
            raise Refused(node, "an index must be an integer", "write int(x)", f"`{ast.unparse(node)}` of {x.type}")
        known = x.whole
        if known is not None:
            self.require_element(node, known, size)
            within = lower(size) + known >= 0  # if not, a guard counts from the end
            return size_expr(size + known) if known < 0 and within else Const(known, int64)
        if x.size is not None:
            return size_expr(x.size)
        return self.w.let(converted(x, ScalarType(int64), node).expr, "at", node)

    def require_element(self, node: ast.expr, place: int, size: Size) -> None:
        """Require that a size has the element of a known index, if each call gets to it.

        Where that depends on symbols, the call checks it.
        """
        reached, needed = self.w.reached, size - place - 1 if place >= 0 else size + place
        if reached is None or implied(needed, reached):
            return
        try:
            if not all(map(holds, reached)) or needed >= 0:
                return
        except ShapeError:
            least = place + 1 if place >= 0 else -place
            if reached:
                raise Refused(
                    node, f"whether the element of index {place} exists must follow from the conditions around it",
                    f'give the size a least one, as in nacre.Dim("n", min={least}), or compare it with {least}',
                    f"the size {size}",
                ) from None  # fmt: skip
            fault = Refused(node, f"an axis must have {least} elements or more", "pass a larger array", "{got}")
            text = str(error_of(fault, self.w.name, self.w.frame.definition.file))
            self.w.checks.append(SizeCheck(size, least, text))
            return
        required = f"an index must be from {size * -1} to {size - 1}" if upper(size) else "an array must have elements"
        raise Refused(node, required, "correct it, or write a condition around the access", str(place))

    def load(self, x: Array, node: ast.AST) -> Scalar:
        """An element."""
        e = Load(x.buffer, x.index, x.dtype)
        return Scalar(self.w.let(e, f"{x.buffer}_at", node), ScalarType(x.dtype))

    # ---- conditions

    def comparison(self, node: ast.Compare) -> Scalar:
        """A comparison, or a chain of them; `is` and `in` compare objects that are known."""
        values = [self.value(n) for n in (node.left, *node.comparators)]
        if any(isinstance(v, Known) for v in values):
            return self._of_objects(node, values)
        numbers = [self.number(v, n) for v, n in zip(values, (node.left, *node.comparators), strict=True)]
        pairs = zip(node.ops, numbers, numbers[1:], strict=False)
        parts = [operators.compared(op, a, b, node) for op, a, b in pairs]
        found = parts[0]
        for p in parts[1:]:
            if found.value is not None and p.value is not None:
                found = number(bool(found.value and p.value))
            else:
                found = Scalar(apply("and", found.expr, p.expr), TRUTH)
        return found

    @staticmethod
    def _of_objects(node: ast.Compare, held: Sequence[Value]) -> Scalar:
        objects = [v.object if isinstance(v, Known) else v.value if isinstance(v, Scalar) else v for v in held]
        unknown = any(isinstance(v, Scalar) and v.value is None for v in held)
        if len(node.ops) != 1 or unknown:
            raise Refused(node, "objects must be compared one with another", "compare numbers with ==")
        match node.ops[0]:
            case ast.Is():
                return number(objects[0] is objects[1])
            case ast.IsNot():
                return number(objects[0] is not objects[1])
            case ast.Eq():
                return number(bool(objects[0] == objects[1]))
            case ast.NotEq():
                return number(bool(objects[0] != objects[1]))
            case _:
                raise Refused(node, "objects must be compared by == or is", "write == for each of the values")

    def logic(
        self, conjunction: bool, nodes: Sequence[ast.expr], node: ast.AST, part: Callable[[ast.expr], Scalar]
    ) -> Scalar:
        """`and` and `or`, of which `part` gives the value of each part: the part that decides.

        A later part is evaluated only if the earlier ones do not decide, if it reads an array.
        """
        first = part(nodes[0])
        if len(nodes) == 1:
            return first
        holds = truth(first)
        if holds.value is not None:
            return first if bool(holds.value) != conjunction else self.logic(conjunction, nodes[1:], node, part)
        if not first.dtype.is_bool:
            first = Scalar(self.w.let(first.expr, "part", node), first.type, None, first.size)
            holds = truth(first)
        with self.w.block(holds.expr if conjunction else apply("not", holds.expr)) as inside:
            rest = self.logic(conjunction, nodes[1:], node, part)
        if not (first.dtype.is_bool and rest.dtype.is_bool):
            later, decided = (inside, rest), (list[Stmt](), first)
            return self.either(holds, *((later, decided) if conjunction else (decided, later)), node)
        if not inside:
            return Scalar(apply("and" if conjunction else "or", first.expr, rest.expr), TRUTH)
        memory = self.w.scratch("holds", TRUTH.dtype, node, first.expr)
        asked = Load(memory, (), TRUTH.dtype) if conjunction else apply("not", Load(memory, (), TRUTH.dtype))
        self.w.emit(If(asked, (*inside, Store(memory, (), rest.expr))), node)
        return Scalar(self.w.let(Load(memory, (), TRUTH.dtype), memory, node), TRUTH)

    def choice(self, node: ast.IfExp) -> Value:
        """`a if condition else b`; only the chosen side is evaluated, if one reads an array."""
        condition = self.condition(node.test)
        if condition.value is not None:
            return self.value(node.body if condition.value else node.orelse)
        with self.w.block(condition.expr) as then:
            a = self.scalar(node.body)
        with self.w.block(apply("not", condition.expr)) as other:
            b = self.scalar(node.orelse)
        return self.either(condition, (then, a), (other, b), node)

    def either(
        self, condition: Scalar, yes: tuple[Sequence[Stmt], Scalar], no: tuple[Sequence[Stmt], Scalar], node: ast.AST
    ) -> Scalar:
        """One of two numbers, each with the statements that compute it."""
        (then, a), (other, b) = yes, no
        type = common(a.type, b.type, node)
        x, y = (converted(v, type, node).expr for v in (a, b))
        if not then and not other:
            return Scalar(self.w.let(apply("select", condition.expr, x, y), "chosen", node), type)
        memory = self.w.scratch("chosen", type.dtype, node)
        sides = ((*then, Store(memory, (), x)), (*other, Store(memory, (), y)))
        self.w.emit(If(condition.expr, *sides), node)
        return Scalar(self.w.let(Load(memory, (), type.dtype), memory, node), type)

    # ---- calls

    def call(self, node: ast.Call) -> Value:
        """A call of a function on numbers."""
        f = self.value(node.func)
        if not isinstance(f, Known):
            raise Refused(node, "only a function can be called", "write a function of numbers", described(f))
        held = f.object
        if getattr(held, "kernel_word", None) == "sum":
            return self.reduced(node)
        if getattr(held, "kernel_word", None) == "parallel" or held is range:
            raise Refused(node, "a range must be that of a for loop", "write `for i in range(n):`")
        if node.keywords and not isinstance(held, FunctionType):
            raise Refused(node, "a function must be called without keywords", "pass the numbers in order")
        if held is len:
            return self.length(node)
        call = functions.function_of(held)
        if call is None and self.w.definitions(held) is not None:
            return self.own(held, node)
        args = self.operands(*node.args)
        if call is None:
            return self.of_library(held, args, node)
        return self.extremum(call, args, node) if held in (min, max) and len(args) > 2 else call(args, node)

    def extremum(self, f: functions.Call, args: Sequence[Scalar], node: ast.AST) -> Scalar:
        """The least or the greatest of several numbers, two at a time."""
        found = args[0]
        for x in args[1:]:
            each = f([found, x], node)
            found = Scalar(self.w.let(each.expr, "chosen", node), each.type, each.value)
        return found

    def of_library(self, held: object, args: Sequence[Scalar], node: ast.Call) -> Scalar:
        """A function of a library that is made of several operations."""
        found = self.w.library(held, args, self.w.fresh, node)
        if found is None:
            raise Refused(
                node, "a function in a kernel must be one of math, numpy or nacre on numbers, or a Python function",
                f"write it out, or define it by `def`{functions.listed(held)}",
            )  # fmt: skip
        lets, value = found
        for s in lets:
            self.w.emit(s, node)
        return value

    def length(self, node: ast.Call) -> Scalar:
        """`len(x)`."""
        held = self.value(node.args[0]) if len(node.args) == 1 else None
        if isinstance(held, tuple):
            return number(len(held))
        if not isinstance(held, Array) or not held.shape:
            raise Refused(node, "len must have an array with axes", "pass one")
        return of_size(held.shape[0])

    def is_own(self, node: ast.Call) -> bool:
        """Whether a call is one of a function of the user's."""
        held = self.value(node.func)
        return isinstance(held, Known) and self.w.definitions(held.object) is not None

    def own(self, held: object, node: ast.Call) -> Value:
        """A call of a function of the user's, which becomes a part of the kernel."""
        definition, frame = self.w.definitions(held), self.w.frame
        assert definition is not None
        if len(frame.key) >= DEEPEST:
            raise Refused(node, f"functions must call each other at most {DEEPEST} deep", "write a loop")
        return self.inlined(CallFrame((*frame.key, id(node)), definition, self.arguments(definition, node)), node)

    def arguments(self, definition: FunctionSource, node: ast.Call) -> dict[str, Value]:
        """What the parameters of a function of the user's have in a call."""
        places, by_name, defaults = definition.parameters()
        env = dict(zip(places, [self.argument(a) for a in node.args], strict=False))
        names = [*places, *by_name]
        for k in node.keywords:
            if k.arg not in names or k.arg in env:
                raise Refused(node, f"the arguments must be {', '.join(names)}", "pass each once", str(k.arg))
            env[k.arg] = self.argument(k.value)
        env |= {n: self.known(x, node) for n, x in defaults.items() if n not in env}
        if set(names) - env.keys() or len(node.args) > len(places):
            raise Refused(node, f"the arguments must be {', '.join(names) or 'none'}", "pass each of them once")
        return env

    def argument(self, node: ast.expr) -> Value:
        """An argument, of which a number has a name from now on."""
        found = self.value(node)
        if isinstance(found, Scalar) and found.value is None and found.size is None:
            return Scalar(self.w.let(found.expr, "given", node), found.type)
        return found
