"""A small program for any sizes, as one Python function: it evaluates sizes and calls the kernels one after another.

A native entry is the fastest way to run a program many times for the same sizes, but its tables take hundreds of
microseconds to write.  This way takes a few for sizes that may never come again.  It is for programs without control
flow, checks and host calls, on one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any

from nacre.base.dims import Dim, Quotient, Size, Symbol
from nacre.base.types import TensorType, known_type
from nacre.runtime.buffer import allocate
from nacre.runtime.executable import Executable
from nacre.runtime.plan import Launch, Number, Plan, Slot

KERNEL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
MOST_STEPS = 32


def is_straight(plan: Plan) -> bool:
    """Whether a plan can be run in this way."""
    kinds = {v.kind for v in plan.values}
    return (
        not plan.tree
        and len(plan.steps) <= MOST_STEPS
        and "part" not in kinds
        and not any(s.may_stop or s.idle for s in plan.steps)
    )


class StraightProgram:
    """The functions of a program: of the numbers of its symbols, in the order of `names`."""

    def __init__(self, executable: Executable, names: Sequence[str], strided: bool = False) -> None:
        self.executable, self.strided = executable, strided
        self.symbols = {name: f"n{k}" for k, name in enumerate(names)}

    def run(self, most: int, make: Callable[[TensorType, Any], Any]) -> Callable[..., Any]:
        """A function that runs it: of the numbers, and of the values of inputs as the last argument.

        It returns the list of results, which `make` makes of types and buffers, or None if the program would take more
        than `most` instructions.
        """
        executable, plan = self.executable, self.executable.plan
        executable.load()
        known: dict[str, Any] = {"allocate": allocate, "Type": TensorType, "make": make, "type_of": known_type}
        terms = [f"{self.source(s.extent)} * max(1, {self.source(s.cost)})" for s in plan.steps]
        lines = [f"if {' + '.join(['0', *terms])} > {most}: return None"]
        lines += [f"{''.join(f'x{k}, ' for k in range(plan.inputs))}= inputs"] if plan.inputs else []
        for k, t in enumerate(executable.input_types):
            lines.append(f"b{k} = x{k}.content")  # other threads may give a value other memory meanwhile
            offset = f" + (x{k}.layout.offset * {t.dtype.itemsize} if x{k}.layout is not None else 0)"
            lines.append(f"v{k} = b{k}.address{offset if self.strided else ''}")
        constants = iter(executable.held)
        for k, value in enumerate(plan.values):
            if value.kind == "constant":
                known[f"v{k}"] = next(constants).address
            elif value.kind == "output" or (value.kind == "temporary" and plan.root(k) == k):
                lines += [f"b{k} = allocate({self.source(value.nbytes)})", f"v{k} = b{k}.address"]
        for k, step in enumerate(plan.steps):
            lines += self.launch(k, step, known)
        results: list[str] = []
        for k, t in enumerate(executable.output_types):
            known[f"d{k}"] = t.dtype
            shape = "".join(self.source(n) + ", " for n in t.shape)
            results.append(f"make(type_of((({shape}), d{k})) or Type(({shape}), d{k}), b{plan.inputs + k})")
        return self.function([*lines, f"return [{', '.join(results)}]"], known)

    def function(self, lines: Sequence[str], known: dict[str, Any]) -> Callable[..., Any]:
        """The function that consists of lines."""
        head = f"def written({', '.join([*self.symbols.values(), 'inputs=None'])}):"
        exec("\n    ".join([head, *lines]), known)
        return known["written"]

    def launch(self, k: int, step: Launch, known: dict[str, Any]) -> Iterator[str]:
        """The lines that run a step."""
        arguments = [self.slot(slot) for slot in step.slots]
        extent, scratch = self.source(step.extent), self.source(step.scratch)
        known[f"kernel{k}"] = KERNEL(self.executable.addresses[step.code])
        known[f"pack{k}"] = Struct(f"{len(arguments)}q").pack
        if step.cut is not None:
            known[f"cut{k}"], known[f"pack{k}"] = step.cut, _packed
            sizes = "".join(self.source(n) + ", " for n in step.cut_sizes)
            yield f"cut = cut{k}(({sizes}), 1)"
            arguments.append("*cut.arguments")
            extent, scratch = "cut.extent", "cut.scratch"
        if scratch != "0":
            yield f"scratch = allocate({scratch})"
        place = "0" if scratch == "0" else "scratch.address"
        yield f"if {extent} > 0: kernel{k}(pack{k}({', '.join(arguments)}), 0, {extent}, {place})"

    def slot(self, slot: Slot) -> str:
        """The expression of a kernel's argument."""
        if isinstance(slot, Number):
            return self.source(slot.size)
        plan = self.executable.plan
        value = plan.root(slot.value) if plan.values[slot.value].kind == "temporary" else slot.value
        if plan.values[value].kind == "packed":
            return "0"
        offset = self.source(slot.offset)
        return f"v{value}" if offset == "0" else f"v{value} + {offset}"

    def source(self, size: Size) -> str:
        """The expression of a size."""
        if not isinstance(size, Dim):
            return str(size)
        terms: list[str] = []
        for monomial, c in size.terms:
            factors = [str(c)] if c != 1 or not monomial else []
            for atom, power in monomial:
                factors += [self.atom(atom)] * power
            terms.append(" * ".join(factors))
        return f"({' + '.join(terms)})"

    def atom(self, atom: Symbol | Quotient) -> str:
        """The expression of a part of a size."""
        return f"({self.source(atom.dim)} // {atom.divisor})" if isinstance(atom, Quotient) else self.symbols[atom.name]


def _packed(*values: int) -> bytes:
    return Struct(f"{len(values)}q").pack(*values)
