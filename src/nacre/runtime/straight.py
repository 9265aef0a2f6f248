"""A small program for any sizes, as one Python function: it evaluates sizes and calls the kernels one after another.

A native entry is the fastest way to run a program many times for the same sizes, but its tables take hundreds of
microseconds to write.  This way takes a few for sizes that may never come again.  It is for programs without control
flow, checks and host calls, on one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from struct import Struct
from typing import Any

from nacre.base.dims import Dim, Quotient, Size, Symbol
from nacre.base.records import written_function
from nacre.base.types import TensorType, known_type
from nacre.runtime.buffer import native
from nacre.runtime.executable import Executable
from nacre.runtime.plan import Launch, Number, Plan, Slot

KERNEL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
MOST_STEPS = 32

Runner = Callable[..., Any]  # (the numbers of symbols, the list of inputs) -> the list of results, or None


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
        self.executable, self.strided, self.sizes = executable, strided, SizeExpressions(names)

    def run(self, most: int, make: Callable[..., Any]) -> Runner:
        """A function that runs it: of the numbers, and of the values of inputs as the last argument.

        It returns the list of results, which `make` makes of types and buffers, or None if the program would take more
        than `most` instructions.
        """
        executable, plan = self.executable, self.executable.plan
        executable.load()
        known: dict[str, Any] = {"allocate": native().allocate, "Type": TensorType, "make": make, "type_of": known_type}
        terms = [f"{self.sizes.of(s.extent)} * max(1, {self.sizes.of(s.cost)})" for s in plan.steps]
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
                lines += [f"b{k} = allocate({self.sizes.of(value.nbytes)})", f"v{k} = b{k}.address"]
        for k, step in enumerate(plan.steps):
            lines += self.launch(k, step, known)
        of_inputs = {t: f"x{k}.type" for k, t in enumerate(executable.input_types)}
        results: list[str] = []
        for k, t in enumerate(executable.output_types):
            known[f"d{k}"] = t.dtype
            shape = self.sizes.tuple(t.shape)
            made = of_inputs.get(t) or f"type_of(({shape}, d{k})) or Type({shape}, d{k})"
            results.append(f"make({made}, b{plan.inputs + k})")
        return self.sizes.function([*lines, f"return [{', '.join(results)}]"], known)

    def launch(self, k: int, step: Launch, known: dict[str, Any]) -> Iterator[str]:
        """The lines that run a step."""
        arguments = [self.slot(slot) for slot in step.slots]
        extent, scratch = self.sizes.of(step.extent), self.sizes.of(step.scratch)
        known[f"kernel{k}"] = KERNEL(self.executable.addresses[step.code])
        known[f"pack{k}"] = Struct(f"{len(arguments)}q").pack
        if step.cut is not None:
            known[f"cut{k}"], known[f"pack{k}"] = step.cut, _packed
            yield f"cut = cut{k}({self.sizes.tuple(step.cut_sizes)}, 1)"
            arguments.append("*cut.arguments")
            extent, scratch = "cut.extent", "cut.scratch"
        if scratch != "0":
            yield f"scratch = allocate({scratch})"
        place = "0" if scratch == "0" else "scratch.address"
        yield f"if {extent} > 0: kernel{k}(pack{k}({', '.join(arguments)}), 0, {extent}, {place})"

    def slot(self, slot: Slot) -> str:
        """The expression of a kernel's argument."""
        if isinstance(slot, Number):
            return self.sizes.of(slot.size)
        plan = self.executable.plan
        value = plan.root(slot.value) if plan.values[slot.value].kind == "temporary" else slot.value
        if plan.values[value].kind == "packed":
            return "0"
        offset = self.sizes.of(slot.offset)
        return f"v{value}" if offset == "0" else f"v{value} + {offset}"


class SizeExpressions:
    """Sizes as expressions of Python over the parameters `n0`, `n1` … that stand for symbols, in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.symbols = {name: f"n{k}" for k, name in enumerate(names)}

    def of(self, size: Size) -> str:
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
        return f"({self.of(atom.dim)} // {atom.divisor})" if isinstance(atom, Quotient) else self.symbols[atom.name]

    def tuple(self, sizes: Sequence[Size]) -> str:
        """The expression of several sizes."""
        return f"({''.join(self.of(n) + ', ' for n in sizes)})"

    def function(self, lines: Sequence[str], known: dict[str, Any]) -> Runner:
        """The function of the numbers and of inputs that consists of lines, which read the names `known`."""
        return written_function("run", [*self.symbols.values(), "inputs"], lines, known)


def _packed(*values: int) -> bytes:
    return _packer(len(values))(*values)


@cache
def _packer(count: int) -> Callable[..., bytes]:
    return Struct(f"{count}q").pack
