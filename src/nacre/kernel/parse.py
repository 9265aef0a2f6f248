"""The parser of kernel text (see `kernel.text`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeVar

from nacre.base.dims import LIMIT, Dim, Size
from nacre.base.dtypes import DType, bool_, dtype_named, int64
from nacre.base.errors import DTypeError, GraphError, ShapeError
from nacre.base.records import dataclass
from nacre.kernel.ast import (
    OPERATIONS,
    REDUCTIONS,
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    apply,
)

NEGATIVE = re.compile(r"-(\d|inf|nan)")
TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:inf|nan|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w|\.(?!\.)))|(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<sign><-|->|//|\.\.|[-+*^()\[\],:=]))"
)
T = TypeVar("T")
DEEPEST = 64  # nested blocks, and nested brackets of a line
LARGEST_POWER = 16


@dataclass
class Line:
    """A line of the text: its number, indentation and content."""

    number: int
    indent: int
    text: str


def parse(text: str) -> Kernel:
    """The kernel of a text.

    Raises GraphError, with the line, if the text is not a kernel.
    """
    if not text.strip():
        raise GraphError(
            "parse: a kernel must begin with `kernel name(inputs) -> (outputs):`; got an empty text; write one"
        )
    kept = [Line(n, len(t) - len(t.lstrip()), t.strip()) for n, t in enumerate(text.splitlines(), 1) if t.strip()]
    reader = _Kernel(kept)
    try:
        return reader.kernel()
    except (GraphError, DTypeError, ShapeError) as fault:
        line = kept[min(reader.at, len(kept) - 1)]
        raise GraphError(f"parse: {fault}; line {line.number}: {_cut(line.text)}") from None


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


@dataclass
class _Kernel:
    """Reads the lines of a kernel."""

    lines: list[Line]
    at: int = 0
    symbols: dict[str, Dim] = field(default_factory=dict[str, Dim])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    indices: set[str] = field(default_factory=set[str])
    locals: dict[str, DType] = field(default_factory=dict[str, DType])
    depth: int = 0  # of the current block

    def kernel(self) -> Kernel:
        """Read bounds, head and body."""
        for line in self.lines[1:]:  # bounds are read first, because the head refers to the symbols
            if not line.text.startswith("where "):
                break
            bounds = re.fullmatch(r"where\s+(\w+)\s+in\s+(\d{1,18})\s*\.\.\s*(\d{1,18})", line.text)
            if bounds is None:
                raise GraphError(f"expected bounds such as `where n in 1..64`; got {_cut(line.text)!r}")
            name, low, high = bounds.groups()
            self.symbols[name] = _size(Dim.symbol(name, int(low), int(high)))
        head = Tokens(self.lines[0].text, self)
        head.take("kernel")
        name = head.name()
        inputs = tuple(head.listed("(", ")", head.buffer))
        head.take("->")
        outputs = tuple(head.listed("(", ")", head.buffer))
        head.take(":").done()
        self.at = 1
        while self.at < len(self.lines) and self.lines[self.at].text.startswith("where "):
            self.at += 1
        body = self.block(self.lines[0].indent)
        if self.at < len(self.lines):
            raise GraphError("the indentation matches no block")
        return Kernel(name, inputs, outputs, body)

    def block(self, outer: int) -> tuple[Stmt, ...]:
        """The statements that are indented more than `outer`."""
        body: list[Stmt] = []
        if self.at >= len(self.lines) or self.lines[self.at].indent <= outer:
            raise GraphError("expected a body")
        if self.depth >= DEEPEST:
            raise GraphError(f"expected at most {DEEPEST} nested blocks; got more")
        self.depth += 1
        indent = self.lines[self.at].indent
        before = dict(self.locals), dict(self.buffers), set(self.indices)
        while self.at < len(self.lines) and self.lines[self.at].indent == indent:
            line = self.lines[self.at]
            if line.text == "pass":
                self.at += 1
            else:
                body.append(self.statement(line))
        self.locals, self.buffers, self.indices = before
        self.depth -= 1
        return tuple(body)

    def statement(self, line: Line) -> Stmt:
        """Read the statement that begins at a line."""
        t = Tokens(line.text, self)
        word = t.peek()
        if word in ("parallel", "vector", "for"):
            return self.loop(t, line)
        if word in ("if", "while"):
            t.next()
            condition = t.expression()
            t.take(":").done()
            self.at += 1
            body = self.block(line.indent)
            if word == "while":
                return While(condition, body)
            return If(condition, body, self.orelse(line))
        s = self.simple(t)
        t.done()
        self.at += 1
        return s

    def loop(self, t: Tokens, line: Line) -> For:
        """Read a loop's head with its marks, and its block."""
        words: list[str] = []
        while t.peek() in ("parallel", "vector"):
            words.append(t.next())
        t.take("for")
        index = t.name()
        t.take("in")
        extent = t.size()
        t.take(":").done()
        self.at += 1
        self.indices.add(index)
        body = self.block(line.indent)
        self.indices.discard(index)
        return For(index, extent, body, "parallel" in words, "vector" in words)

    def orelse(self, line: Line) -> tuple[Stmt, ...]:
        """Read the else block of the same indent; empty if there is none."""
        if self.at < len(self.lines):
            following = self.lines[self.at]
            if following.indent == line.indent and following.text == "else:":
                self.at += 1
                return self.block(line.indent)
        return ()

    def simple(self, t: Tokens) -> Stmt:
        """Read a statement of one line."""
        word, after = t.name(), t.peek()
        if word == "let" and after not in ("[", None):
            name = t.name()
            value = t.take("=").expression()
            self.locals[name] = value.dtype
            return Let(name, value)
        if word == "alloc" and after != "[":
            buffer = t.buffer()
            return Alloc(buffer)
        if word == "accumulate" and after != "[":
            op = t.name()
            if op not in REDUCTIONS:
                raise GraphError(f"expected a reduction of {', '.join(REDUCTIONS)}; got {op!r}")
            names = [t.name() for _ in range(REDUCTIONS[op]) if t.skip(",")]
            t.take("<-")
            return Accumulate(op, tuple(names), tuple(t.expression() for _ in names if t.skip(",")))
        index = tuple(t.listed("[", "]", t.expression))
        return Store(word, index, t.take("=").expression())


def _size(size: Size) -> Dim:
    assert isinstance(size, Dim)
    return size


class Tokens:
    """The tokens of a line, read from left to right."""

    def __init__(self, text: str, kernel: _Kernel) -> None:
        self.kernel, self.at, self.depth = kernel, 0, 0
        self.tokens: list[str] = []
        place = 0
        while place < len(text):
            found = TOKEN.match(text, place)
            if found is None:
                if not text[place:].strip():
                    break
                raise GraphError(f"unexpected {text[place:].strip().split()[0]!r}")
            self._append(found.group().strip(), found.lastgroup == "number")
            place = found.end()

    def _append(self, token: str, number: bool) -> None:
        """A minus after an operand is an operator: `i -1` is i - 1."""
        operand = self.tokens and (re.match(r"[\w.]", self.tokens[-1][-1]) or self.tokens[-1] in (")", "]"))
        if number and token[0] == "-" and operand and self.tokens[-1] not in ("in", "size"):
            self.tokens += ["-", token[1:]]
        else:
            self.tokens.append(token)

    def peek(self, ahead: int = 0) -> str | None:
        """The next token, or one further ahead; None past the end."""
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def next(self) -> str:
        """Take the next token; GraphError at the end of the line."""
        token = self.peek()
        if token is None:
            raise GraphError("unexpected end of the line")
        self.at += 1
        return token

    def take(self, token: str) -> Tokens:
        """Take the token given; GraphError if another is next."""
        found = self.next()
        if found != token:
            raise GraphError(f"expected {token!r}; got {found!r}")
        return self

    def skip(self, token: str) -> bool:
        """Pass over a token if it is the next one; always true."""
        if self.peek() == token:
            self.at += 1
        return True

    def done(self) -> None:
        """GraphError unless all tokens are taken."""
        if self.at < len(self.tokens):
            raise GraphError(f"expected the end of the line; got {self.peek()!r}")

    def name(self) -> str:
        """Take a name; GraphError if something else is next."""
        token = self.next()
        if not re.fullmatch(r"[A-Za-z_][\w.]*", token):
            raise GraphError(f"expected a name; got {token!r}")
        return token

    def listed(self, opening: str, closing: str, read: Callable[[], T]) -> list[T]:
        """Read items between brackets, separated by commas."""
        self.take(opening)
        found: list[T] = []
        while self.peek() != closing:
            if found:
                self.take(",")
            found.append(self.nested(read))
        self.take(closing)
        return found

    def nested(self, read: Callable[[], T]) -> T:
        """The result of `read` inside of brackets; GraphError if they are nested too deep."""
        if self.depth >= DEEPEST:
            raise GraphError(f"expected at most {DEEPEST} nested brackets; got more; bind inner values with `let`")
        self.depth += 1
        found = read()
        self.depth -= 1
        return found

    # ---- buffers and sizes

    def buffer(self) -> Buffer:
        """Read `name: dtype[shape]` with optional strides, and declare the buffer."""
        name = self.name()
        self.take(":")
        dtype = dtype_named(self.name())
        shape = tuple(self.listed("[", "]", self.size))
        strides = tuple(self.take("strides").listed("[", "]", self.size)) if self.peek() == "strides" else None
        buffer = self.kernel.buffers[name] = Buffer(name, dtype, shape, strides)
        return buffer

    def size(self) -> Size:
        """Read a sum of size terms."""
        total = self._term()
        while self.peek() in ("+", "-"):
            sign = 1 if self.next() == "+" else -1
            total = total + self._term() * sign
        return total

    def _term(self) -> Size:
        total = self._factor()
        while self.peek() == "*":
            self.next()
            total = total * self._factor()
        return total

    def _factor(self) -> Size:
        if self.peek() == "-":
            self.next()
            return self.nested(self._factor) * -1
        base = self._atom()
        if self.peek() == "^":
            self.next()
            power, one = self._positive(LARGEST_POWER), base
            for _ in range(power - 1):
                base = base * one
        return base

    def _atom(self) -> Size:
        token = self.next()
        if token == "(":
            inner = self.nested(self.size)
            if self.peek() == "//":
                self.next()
                inner = inner // self._positive(LIMIT)
            self.take(")")
            return inner
        if re.fullmatch(r"-?\d+", token):
            return self._integer(token, int64)
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            raise GraphError(f"expected a size; got {token!r}")
        return self.kernel.symbols.setdefault(token, _size(Dim.symbol(token)))

    def _positive(self, greatest: int) -> int:
        """Take an integer from 1."""
        token = self.next()
        if not re.fullmatch(r"\d{1,18}", token) or not 1 <= int(token) <= greatest:
            raise GraphError(f"expected an integer from 1 to {greatest}; got {token!r}")
        return int(token)

    # ---- expressions

    def expression(self) -> Expr:
        """Read an expression; the infix sign * takes precedence over + and -, and all are left-associative."""
        return self._infix({"+": "add", "-": "sub"}, lambda: self._infix({"*": "mul"}, self._primary))

    def _infix(self, names: Mapping[str, str], operand: Callable[[], Expr]) -> Expr:
        first = operand()
        while (sign := self.peek()) is not None and (sign in names or ("+" in names and NEGATIVE.match(sign))):
            op = names[self.next()] if sign in names else "add"  # `i -1` is read as `i` and the number -1
            first = Apply(op, (first, operand()), first.dtype)
        return first

    def _primary(self) -> Expr:
        token = self.next()
        if token == "(":
            inner = self.nested(self.expression)
            self.take(")")
            return inner
        if re.match(r"-?(\d|inf\b|nan\b)", token):
            return self._number(token)
        if token in ("true", "false") and self.peek() != "[":
            return Const(token == "true", bool_)
        if self.peek() == "[" and token not in ("cast", "bitcast"):
            index = tuple(self.listed("[", "]", self.expression))
            return Load(token, index, self._buffer_named(token).dtype)
        if self.peek() in ("(", "[") and token in (*OPERATIONS, "size"):
            return self._operation(token)
        if token in self.kernel.locals:
            return Local(token, self.kernel.locals[token])
        if token in self.kernel.indices:
            return Index(token)
        raise GraphError(f"expected the index of an enclosing loop or a let; got {token!r}")

    def _buffer_named(self, name: str) -> Buffer:
        if name not in self.kernel.buffers:
            raise GraphError(f"expected a buffer; got {name!r}")
        return self.kernel.buffers[name]

    def _number(self, token: str) -> Const:
        dtype = int64
        if self.peek() == ":" and self.peek(1) not in (None, "f"):
            self.next()
            dtype = dtype_named(self.name())
        if dtype.python is not float:
            return Const(self._integer(token, dtype), dtype)
        return Const(math.nan if token == "nan" else float(token), dtype)

    @staticmethod
    def _integer(token: str, dtype: DType) -> int:
        if not re.fullmatch(r"-?\d+", token):
            raise GraphError(
                f"expected an integer of dtype {dtype.short}; got {token}; write {token}:f32 for a float32"
            )
        if dtype.python is not int:
            raise GraphError(
                f"expected a number of integer or floating dtype, or true or false; got {token}:{dtype.short}"
            )
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        high = low + (1 << dtype.bits) - 1
        if len(token) > 21 or not low <= int(token) <= high:
            raise GraphError(f"expected a number of dtype {dtype.short} from {low} to {high}; got {_cut(token)}")
        return int(token)

    def _operation(self, op: str) -> Expr:
        if op == "size":
            self.take("(")
            size = self.size()
            self.take(")")
            return Extent(size)
        dtype = dtype_named(self.listed("[", "]", self.name)[0]) if self.peek() == "[" else None
        args = tuple(self.listed("(", ")", self.expression))
        if len(args) != OPERATIONS[op][0]:
            raise GraphError(f"{op} must have {OPERATIONS[op][0]} operands; got {len(args)}")
        return apply(op, *args) if dtype is None else Apply(op, args, dtype)
