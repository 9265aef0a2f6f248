"""Functions in static single assignment form, made while the statements are read.

After M. Braun, S. Buchwald, S. Hack, R. Leißa, C. Mallon, A. Zwinkau: Simple and Efficient Construction of Static
Single Assignment Form, 2013.  Each block knows the variables that it defines.  A read elsewhere looks in the blocks
before it, and makes a phi where several meet.  A block is sealed once all blocks before it are known; until then its
phis are without operands.  A phi whose operands are one value is replaced by that value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from nacre.native.llvm_values import Val
from nacre.native.python.types import Kind
from nacre.native.text import Function


class Computed:
    """A value of a function, or an instruction without one: its type, its operands, and its text.

    In the text, `{0}` stands for the first operand with its type, and `{0.text}` for the operand alone.  Without a text
    the value is that of its only operand.  The name of the value begins with `stem`.
    """

    users: tuple[Phi, ...] = ()  # only the phis
    replaced: Computed | None = None
    written: Val | None = None

    def __init__(self, kind: Kind, operands: Sequence[Computed] = (), text: str = "", stem: str = "v") -> None:
        self.kind, self.operands, self.text, self.stem = kind, operands, text, stem

    def now(self) -> Computed:
        """This value, or the one that has replaced it."""
        found = self
        while found.replaced is not None:
            found = found.replaced
        return found

    def val(self) -> Val:
        """The operand that stands for the value in LLVM text."""
        found = self.now()
        assert found.written or (type(found) is Computed and not found.text), (
            "a value must be written before it is used"
        )
        return found.written or found.operands[0].val()

    def write(self, f: Function) -> None:
        """Write the instruction; space on the stack whose size is known is taken at the start of the function."""
        if not self.text:
            return
        line = self.text.format(*[x.written or x.val() for x in self.operands])
        if self.kind.llvm == "void":
            f.emit(line)
        elif self.stem == "stack" and not self.operands:
            with f.at_entry():
                self.written = f.op(line, "ptr", "stack")
        else:
            self.written = f.op(line, self.kind.llvm, self.stem)


class Phi(Computed):
    """The value of a variable where blocks meet."""

    def __init__(self, kind: Kind, block: BasicBlock, reader: Hashable) -> None:
        super().__init__(kind)
        self.block, self.reader = block, reader
        self.operands: list[Computed] = []


class BasicBlock:
    """A basic block: straight code, and the blocks before it."""

    def __init__(self, name: str, sealed: bool = False) -> None:
        self.name, self.sealed, self.label = name, sealed, ""
        self.before: list[BasicBlock] = []
        self.phis: list[Phi] = []
        self.code: list[Computed] = []
        self.defined: dict[Hashable, Computed] = {}
        self.waiting: list[tuple[Hashable, Phi]] = []
        self.condition: Computed | None = None  # the value that the function returns, where no block follows
        self.after: tuple[BasicBlock, ...] = ()


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
        self.begin(BasicBlock("start", sealed=True))

    def begin(self, part: BasicBlock, seal: bool = False) -> None:
        """Add code to a block from now on, if control arrives there; perhaps all blocks before it are known."""
        self.here = part if part.before or not self.parts else None
        if self.here is not None:
            self.parts.append(part)
        if seal:
            self.seal(part)
            if len(part.before) == 1:
                part.defined = part.before[0].defined.copy()

    def add(self, kind: Kind, operands: Sequence[Computed] = (), text: str = "", stem: str = "v") -> Computed:
        """Add an instruction."""
        made = Computed(kind, operands, text, stem)
        if self.here is not None:
            self.here.code.append(made)
        return made

    def jump(self, *to: BasicBlock, condition: Computed | None = None) -> None:
        """End the block: to the only block, or to the first one where the condition holds, else to the second.

        Without blocks the function ends, and returns the condition.
        """
        if self.here is not None:
            self.here.condition, self.here.after = condition, to
            for part in to:
                part.before.append(self.here)
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
        found = self.here.defined.get(variable)
        if found is None:
            return self._read(self.here, variable, kind, reader)
        return found if found.replaced is None else found.now()

    def _read(self, part: BasicBlock, variable: Hashable, kind: Kind, reader: Hashable) -> Computed:
        """The value of a variable at the end of a block."""
        passed = list[BasicBlock]()
        while (found := part.defined.get(variable)) is None and part.sealed and len(part.before) == 1:
            passed.append(part)
            part = part.before[0]
        if found is None:
            values = {b.defined.get(variable) for b in part.before} if part.sealed else {None}
            if not values:
                raise Uninitialised(reader)
            found = values.pop()
            if found is None or values:
                found = part.defined[variable] = phi = Phi(kind, part, reader)  # so that a loop ends here
                part.phis.append(phi)
                if part.sealed:
                    found = self._complete(phi, variable)
                else:
                    part.waiting.append((variable, phi))
            part.defined[variable] = found
        for each in passed:
            each.defined[variable] = found
        return found if found.replaced is None else found.now()

    def _complete(self, phi: Phi, variable: Hashable) -> Computed:
        """Give a phi its operands, one for each block before its own."""
        for before in phi.block.before:
            value = self._read(before, variable, phi.kind, phi.reader)
            phi.operands.append(value)
            value.users += (phi,)
        return self._simplified(phi)

    def _simplified(self, phi: Phi) -> Computed:
        """A phi, or the only value that it stands for."""
        only = phi
        for value in phi.operands:
            value = value.now()
            if value is not phi and value is not only:
                if only is not phi:
                    return phi
                only = value
        if only is phi:
            return phi
        users, phi.replaced = [u for u in phi.users if u is not phi], only
        phi.block.phis.remove(phi)
        phi.operands, phi.users = [], ()
        only.users = (*[u for u in only.users if u is not phi], *users)
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
                each.write(f)
            if not part.after:
                f.ret(None if part.condition is None else part.condition.val())
            elif part.condition is not None:
                f.branch(part.condition.val(), part.after[0].label, part.after[1].label)
            else:
                f.jump(part.after[0].label)
        for phi in (phi for part in self.parts for phi in part.phis):
            f.complete_phi(phi.val(), [(x.val(), b.label) for x, b in zip(phi.operands, phi.block.before, strict=True)])
        for part in self.parts:  # without cycles, the memory is free at once
            for phi in part.phis:
                phi.operands.clear()
            vars(part).clear()
