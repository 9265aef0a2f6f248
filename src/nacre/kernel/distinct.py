"""Distinct names: no two declarations of a kernel with different meanings have one name.

Text from outside may declare a name again in another block.  Analyses look names up without regard to blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from nacre.base.records import dataclass
from nacre.kernel.ast import Accumulate, Alloc, Expr, For, If, Index, Kernel, Let, Load, Local, Stmt, Store, While
from nacre.kernel.rewrite import map_expression


def with_distinct_names(kernel: Kernel) -> Kernel:
    """The kernel with other names for later declarations of a name that differ from the first."""
    names = _Names({b.name: b for b in kernel.buffers})
    return replace(kernel, body=names.block(kernel.body, {b.name: b.name for b in kernel.buffers}))


@dataclass(frozen=True)
class _Names:
    """The declaration of each name: a buffer, the extent of a loop, or the value of a `let`."""

    declared: dict[str, object] = field(default_factory=dict[str, object])

    def block(self, body: Sequence[Stmt], new: Mapping[str, str]) -> tuple[Stmt, ...]:
        """A block with the new names of the blocks around it, and its own."""
        new, done = dict(new), list[Stmt]()
        for s in body:
            match s:
                case Let():
                    value = _renamed(s.value, new)
                    new[s.name] = self.name(s.name, ("let", value), new)
                    done.append(Let(new[s.name], value))
                case Alloc():
                    new[s.buffer.name] = self.name(s.buffer.name, replace(s.buffer, name=""), new)
                    done.append(Alloc(replace(s.buffer, name=new[s.buffer.name])))
                case For():
                    index = self.name(s.index, ("for", s.extent), new)
                    done.append(replace(s, index=index, body=self.block(s.body, {**new, s.index: index})))
                case If():
                    inner = [self.block(b, new) for b in (s.body, s.orelse)]
                    done.append(If(_renamed(s.condition, new), *inner))
                case While():
                    done.append(While(_renamed(s.condition, new), self.block(s.body, new)))
                case Store():
                    index = tuple(_renamed(e, new) for e in s.index)
                    done.append(Store(new.get(s.buffer, s.buffer), index, _renamed(s.value, new)))
                case Accumulate():
                    accumulators = tuple(new.get(a, a) for a in s.accumulators)
                    done.append(Accumulate(s.op, accumulators, tuple(_renamed(e, new) for e in s.values)))
        return tuple(done)

    def name(self, name: str, meaning: object, around: Mapping[str, str]) -> str:
        """The name for a declaration: the given one, unless it has another meaning behind its block.

        A name of a block around it stays, which the verifier refuses.
        """
        if name in around:
            return name
        found, count = name, 1
        while self.declared.setdefault(found, meaning) != meaning or found.endswith("_zero"):
            count += 1
            found = f"{name}_{count}"
        return found


def _renamed(e: Expr, new: Mapping[str, str]) -> Expr:
    def visit(part: Expr) -> Expr:
        """The name or load with its new name."""
        match part:
            case Index() | Local():
                return replace(part, name=new.get(part.name, part.name))
            case Load():
                return replace(part, buffer=new.get(part.buffer, part.buffer))
            case _:
                return part

    return map_expression(e, visit)
