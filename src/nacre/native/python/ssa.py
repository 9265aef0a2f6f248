"""Functions in static single assignment form, made while the statements are read.

After M. Braun, S. Buchwald, S. Hack, R. Leißa, C. Mallon, A. Zwinkau: Simple and Efficient Construction of Static
Single Assignment Form, 2013.  Each block knows the variables that it defines.  A read elsewhere looks in the blocks
before it, and makes a phi where several meet.  A block is sealed once all blocks before it are known; until then its
phis are without operands.  A phi whose operands are one value is replaced by that value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from nacre.native.llvm_values import Val
from nacre.native.python.types import Kind
from nacre.native.text import Function

Emit: TypeAlias = Callable[[Function, Sequence[Val]], Val | None]


class Computed:
    """A value of a function, or an instruction without one: its type, its operands, and how it is written."""

    def __init__(self, kind: Kind, operands: Sequence[Computed], emit: Emit) -> None:
        self.kind, self.operands, self.emit = kind, list(operands), emit
        self.users: set[Phi] = set()  # only the phis
        self.replaced: Computed | None = None
        self.written: Val | None = None

    def now(self) -> Computed:
        """This value, or the one that has replaced it."""
        found = self
        while found.replaced is not None:
            found = found.replaced
        return found


class Phi(Computed):
    """The value of a variable where blocks meet."""

    def __init__(self, kind: Kind, block: BasicBlock, reader: Hashable) -> None:
        super().__init__(kind, (), nothing)
        self.block, self.reader = block, reader


def nothing(*_: object) -> None:
    """Write nothing: the value needs no instruction, or is a phi, which its block writes."""


class BasicBlock:
    """A basic block: straight code, and the blocks before it."""

    def __init__(self, name: str, sealed: bool = True) -> None:
        self.name, self.sealed = name, sealed
        self.before: list[BasicBlock] = []
        self.phis: list[Phi] = []
        self.code: list[Computed] = []
        self.defined: dict[Hashable, Computed] = {}
        self.waiting: list[tuple[Hashable, Phi]] = []
        self.end: tuple[Computed | None, tuple[BasicBlock, ...]] | None = (
            None  # a condition and successors, or a return
        )
        self.label = ""


class Uninitialised(Exception):
    """A variable that has no value on some way to a reader."""

    def __init__(self, reader: Hashable) -> None:
        super().__init__(reader)
        self.reader = reader


class Construction:
    """The blocks of one function, and the values of its variables in each."""

    def __init__(self) -> None:
        self.parts: list[BasicBlock] = []
        self.here: BasicBlock | None = None  # where code is added; None where control does not arrive
        self.begin(BasicBlock("start"))

    def begin(self, part: BasicBlock) -> None:
        """Add code to a block from now on, if control arrives there."""
        arrives = bool(part.before) or not self.parts
        self.here = part if arrives else None
        if arrives:
            self.parts.append(part)

    def add(self, kind: Kind, operands: Sequence[Computed], emit: Emit) -> Computed:
        """Add an instruction."""
        made = Computed(kind, operands, emit)
        if self.here is not None:
            self.here.code.append(made)
        return made

    def jump(self, *to: BasicBlock, condition: Computed | None = None) -> None:
        """End the block: to the only block, or to the first one where the condition holds, else to the second."""
        if self.here is not None:
            self.here.end = condition, to
            for part in to:
                part.before.append(self.here)
        self.here = None

    def leave(self, value: Computed | None) -> None:
        """End the block and the function."""
        if self.here is not None:
            self.here.end = value, ()
        self.here = None

    # ---- variables

    def write(self, variable: Hashable, value: Computed) -> None:
        """Set a variable."""
        if self.here is not None:
            self.here.defined[variable] = value

    def read(self, variable: Hashable, kind: Kind, reader: Hashable = None) -> Computed:
        """The value of a variable; `reader` is what an error is about.

        Raises Uninitialised where some way leads here without one.
        """
        assert self.here is not None
        found = self._read(self.here, variable, Phi(kind, self.here, reader))
        if found is None:
            raise Uninitialised(reader)
        return found.now()

    def _read(self, part: BasicBlock, variable: Hashable, like: Phi) -> Computed | None:
        """The value of a variable at the end of a block; a phi that is made has the type of `like`."""
        known = part.defined.get(variable)
        if known is not None:
            return known.now()
        phi = Phi(like.kind, part, like.reader)
        if not part.sealed:
            part.waiting.append((variable, phi))
            part.phis.append(phi)
            found: Computed | None = phi
        elif len(part.before) == 1:
            found = self._read(part.before[0], variable, like)
        elif not part.before:
            return None
        else:
            part.phis.append(phi)
            part.defined[variable] = phi  # so that a loop ends here
            found = self._complete(phi, variable)
        if found is not None:
            part.defined[variable] = found
        return found

    def _complete(self, phi: Phi, variable: Hashable) -> Computed:
        """Give a phi its operands, one for each block before its own."""
        for before in phi.block.before:
            value = self._read(before, variable, phi)
            if value is None:
                raise Uninitialised(phi.reader)
            phi.operands.append(value)
            value.users.add(phi)
        return self._simplified(phi)

    def _simplified(self, phi: Phi) -> Computed:
        """A phi, or the only value that it stands for."""
        others = {id(v.now()): v.now() for v in phi.operands}
        others.pop(id(phi), None)
        if len(others) != 1:
            return phi
        (only,) = others.values()
        phi.replaced = only
        phi.block.phis.remove(phi)
        users = phi.users - {phi}
        only.users |= users
        for user in users:
            if user.replaced is None and len(user.operands) == len(user.block.before):
                self._simplified(user)
        return only.now()

    def seal(self, part: BasicBlock) -> None:
        """Note that all blocks before a block are known."""
        part.sealed = True
        for variable, phi in part.waiting:
            self._complete(phi, variable)
        part.waiting.clear()

    # ---- text

    def write_to(self, f: Function) -> None:
        """Write all blocks as LLVM text."""
        for part in self.parts:
            part.label = "entry" if part is self.parts[0] else f.fresh(part.name)
        for part in self.parts:
            if part is not self.parts[0]:
                f.label(part.label)
            for phi in part.phis:
                phi.written = f.phi_later(phi.kind.llvm)
            for each in part.code:
                each.written = each.emit(f, [_written(x) for x in each.operands])
            _write_end(f, part)
        for part in self.parts:
            for phi in part.phis:
                arms = [(_written(x), b.label) for x, b in zip(phi.operands, part.before, strict=True)]
                f.complete_phi(_written(phi), arms)


def _written(value: Computed) -> Val:
    """The operand that stands for a value: constants stand for themselves."""
    found = value.now()
    assert found.written is not None, "a value must be written before it is used"
    return found.written


def _write_end(f: Function, part: BasicBlock) -> None:
    assert part.end is not None, f"{part.name} must end"
    value, to = part.end
    if not to:
        f.ret(None if value is None else _written(value))
    elif value is not None and len(to) == 2:
        f.branch(_written(value), to[0].label, to[1].label)
    else:
        f.jump(to[0].label)
