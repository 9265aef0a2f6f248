"""Launch writing: kernels become launches over numbered values, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import count
from typing import Final

from nacre.base.dims import Dim, Size
from nacre.base.identity_cache import cached_by_identity
from nacre.base.records import dataclass
from nacre.base.types import row_major
from nacre.codegen.loops.kernel import Generated, generate
from nacre.codegen.loops.non_temporal import large_results
from nacre.compile.buffers.reuse import Carry, overwritable
from nacre.compile.fusion.materialisation import View
from nacre.compile.lowering.cost import typical
from nacre.compile.lowering.lower import copy_kernel
from nacre.compile.lowering.symbolic_shapes import SymbolicKernel
from nacre.compile.lowering.template_step import ArgSlot, PrepackedOperand, Scratch, TemplateStep
from nacre.compile.program.values import ValueNumbers
from nacre.interpret.host import HostLaunch
from nacre.ir.graph import Atom, Equation, Var
from nacre.kernel.ast import For, Kernel
from nacre.native.engine import Target
from nacre.native.isa import Isa
from nacre.native.python.types import struct_of
from nacre.runtime.executable import CHECK, HOST_CALL, Code
from nacre.runtime.flow import Node
from nacre.runtime.layouts import Outcome
from nacre.runtime.plan import READY, Failure, Launch, Number, PlannedValue, Pointer, Slot
from nacre.runtime.texts import check_text, host_call_text


@dataclass(frozen=True)
class KernelForms:
    """A kernel after each kernel pass, by the pass's name, in order; code is generated from the last form."""

    behind: Mapping[str, SymbolicKernel]
    concrete: Kernel  # the last form with the program's own sizes

    @property
    def last(self) -> SymbolicKernel:
        """The form after the last pass."""
        return list(self.behind.values())[-1]


@dataclass(frozen=True)
class Stage:
    """The origin of one launch, for inspection: its kernel IR, or the template's name."""

    label: str
    equations: tuple[Equation, ...]
    forms: KernelForms | None = None  # None for a template

    @property
    def kernel(self) -> Kernel | None:
        """The kernel IR with the program's own sizes; None for a template."""
        return None if self.forms is None else self.forms.concrete


@dataclass(frozen=True)
class NestForm:
    """How a nest is launched: whether a result may overwrite an operand, and whether LLVM's passes run on its code."""

    in_place: bool = True
    optimised: bool = False


PLAIN_NEST: Final = NestForm()


@dataclass
class LaunchWriter:
    """Writes the launches of a graph; all graphs of a program share one list of launches, but each has its own tree."""

    values: ValueNumbers
    isa: Isa
    target: Target
    forms: Callable[[Kernel], KernelForms]  # runs the kernel passes
    codes: dict[Code, int] = field(default_factory=dict[Code, int])
    steps: list[Launch] = field(default_factory=list[Launch])
    stages: list[Stage] = field(default_factory=list[Stage])
    tree: list[Node] = field(default_factory=list[Node])
    carries: list[Carry] = field(default_factory=list[Carry])
    loops: Iterator[int] = field(default_factory=count)
    begin: Callable[[str], None] | None = None  # takes the text of each new kernel
    sure: bool = True  # whether the graph runs at least once in each call

    def within(self, values: ValueNumbers, sure: bool) -> LaunchWriter:
        """A writer for the body of a loop or a side of a branch.  `sure`: it runs whenever the code around it runs."""
        return replace(self, values=values, tree=[], sure=self.sure and sure)

    def next_loop(self) -> int:
        """The number of a new loop."""
        return next(self.loops)

    def launch(self, launch: Launch, stage: Stage) -> None:
        """Append a launch."""
        self.tree.append(len(self.steps))
        self.steps.append(launch)
        self.stages.append(stage)

    def code(self, code: Code) -> int:
        """The number of a kernel; the texts of a new one are passed to `begin` at once."""
        if code not in self.codes and self.begin is not None:
            for text in code.texts:
                self.begin(text)
        return self.codes.setdefault(code, len(self.codes))

    # ---- nests

    def nest(
        self,
        kernel: Kernel,
        reads: Sequence[View],
        writes: Sequence[int],
        cost: int,
        label: str,
        equations: Sequence[Equation],
        idle: bool = False,
        form: NestForm = PLAIN_NEST,
    ) -> None:
        """Launch a kernel-IR nest over views and values; an `idle` one is a copy, omitted where nothing moves."""
        forms = self.forms(kernel)
        general, pairs = forms.last, overwritable(kernel) if form.in_place else ()
        made = generated(general.kernel, self.isa, large_results(kernel), form.optimised)
        slots: list[Slot] = []
        for buffer, view in zip(kernel.inputs, reads, strict=True):
            slots.append(Pointer(self.values.number(view.base), view.offset * buffer.dtype.itemsize))
        slots += [Pointer(self.values.scalar(c)) for c in general.scalars]
        slots += [Pointer(w) for w in writes]
        slots += [Number(substitute(s, general.sizes)) for s in made.sizes]
        extent = substitute(made.extent, general.sizes)
        bases = [self.values.number(v.base) for v in reads]
        over = tuple((bases[i], writes[o]) for i, o in pairs if reads[i].offset == 0 and bases.count(bases[i]) == 1)
        self.launch(
            Launch(
                self.code(Code(made.text, made.name, made.units)),
                label,
                tuple(slots),
                extent,
                self.per_item(kernel, cost, extent),
                substitute(made.scratch, general.sizes),
                tuple(bases),
                tuple(writes),
                over=over,
                idle=idle and bool(over),
            ),
            Stage(label, tuple(equations), forms),
        )

    def per_item(self, kernel: Kernel, cost: int, extent: Size) -> int:
        """Work of one item of the parallel extent, in vector instructions."""
        rounds: Size = 1
        body = kernel.body
        while body and isinstance(body[0], For) and body[0].parallel:
            rounds = rounds * body[0].extent
            body = body[0].body
        lanes = self.isa.lanes("float")
        rounds, extent = typical(rounds), typical(extent)
        return max(1, cost * rounds // (extent * lanes) if extent else cost * 4 // lanes)

    def dense(self, x: Atom, view: View) -> View:
        """Launch a copy of a strided view into dense memory."""
        kernel = copy_kernel(x.type, view.strides, x.type.dtype, "copy")
        copied = self.values.new(PlannedValue("temporary", x.type.nbytes))
        base = Var(x.type)
        self.values.numbers[base] = copied
        self.nest(kernel, [view], [copied], 2, "copy", [])
        return View(base, 0, row_major(x.type.shape))

    # ---- host calls and checks

    def all_dense(self, e: Equation, views: Sequence[View]) -> list[View]:
        """The operands' views, those of dense copies where an operand is not dense."""
        return [
            v if v.strides == row_major(x.type.shape) else self.dense(x, v)
            for x, v in zip(e.inputs, views, strict=True)
        ]

    def checks(self, e: Equation, views: Sequence[View]) -> None:
        """Launch the kernel of checks, over the integers of each, and the position behind those of many integers."""
        dense = self.all_dense(e, views)
        pointers = [
            Pointer(self.values.number(v.base), v.offset * x.type.dtype.itemsize)
            for x, v in zip(e.inputs, dense, strict=True)
        ]
        number = sum(len(s.failures) for s in self.steps)
        slots: list[Slot] = [Number(number), Number(len(e.params["bounds"]))]
        failures: list[Failure] = []
        given = iter(zip(pointers, e.inputs, strict=True))
        for low, high, kind, text, few in e.params["bounds"]:
            slots.append(Number(0) if few else next(given)[0])
            place, held = next(given)
            integers = held.type
            signed = integers.dtype.is_signed
            width = integers.dtype.itemsize * (1 if signed else -1)
            slots += [place, Number(integers.size), Number(width), Number(low), Number(high)]
            failures.append(Failure(kind, text, signed))
        reads = tuple(dict.fromkeys(p.value for p in pointers))
        code = self.code(Code(check_text(self.target), CHECK))
        label = "check " + ", ".join(sorted({f.text.partition(":")[0] for f in failures}))
        scratch = struct_of(Outcome).nbytes
        launch = Launch(code, label, tuple(slots), 1, 1, scratch, reads, (), failures=tuple(failures))
        self.launch(launch, Stage(label, (e,)))

    def host_call(self, e: Equation, views: Sequence[View]) -> None:
        """Launch a call of a Python function, over dense copies of operands that are not dense."""
        dense = self.all_dense(e, views)
        operands, results = tuple(x.type for x in e.inputs), tuple(y.type for y in e.outputs)
        sizes = {s.name: s for t in (*operands, *results) for n in t.shape if isinstance(n, Dim) for s in n.symbols()}
        symbols = [Dim.symbol(s.name, s.low, s.high) for _, s in sorted(sizes.items())]
        host = HostLaunch(e.primitive, e.params, operands, results, tuple(sorted(sizes)))
        reads = tuple(self.values.number(v.base) for v in dense)
        writes = tuple(self.values.number(y) for y in e.outputs)
        slots: list[Slot] = [Number(id(host))]
        for x, v, number in zip(e.inputs, dense, reads, strict=True):
            slots.append(Pointer(number, v.offset * x.type.dtype.itemsize))
        slots += [*map(Pointer, writes), *map(Number, symbols)]
        code = self.code(Code(host_call_text(self.target), HOST_CALL))
        launch = Launch(code, host.label, tuple(slots), 1, 1, struct_of(Outcome).nbytes, reads, writes, host=host)
        self.launch(launch, Stage(host.label, (e,)))

    # ---- templates

    def template_step(self, s: TemplateStep, scratch: dict[Scratch, int], label: str, e: Equation) -> None:
        """Launch a kernel that writes its own LLVM text; `scratch` numbers the temporaries that its steps share."""
        values = self.values

        def value(place: object) -> int:
            """The number of a value or of scratch."""
            if isinstance(place, Scratch):
                if place not in scratch:
                    of, fill = values.source(place.of, place.fill)
                    scratch[place] = values.new(PlannedValue("temporary", place.nbytes, of=of, fill=fill))
                return scratch[place]
            return values.number(place.base if isinstance(place, View) else place)  # type: ignore[arg-type]

        def slot(given: ArgSlot) -> Slot:
            """An argument of the kernel."""
            if not isinstance(given, tuple):
                return Number(given)
            if isinstance(given[0], PrepackedOperand):
                return self.packed(given[0])
            return Pointer(value(given[0]), given[1])

        slots = tuple(map(slot, s.slots))
        self.launch(
            Launch(
                self.code(s.code),
                label,
                slots,
                s.extent,
                s.cost,
                s.scratch,
                tuple(map(value, s.reads)),
                tuple(map(value, s.writes)),
                s.grain,
                s.flops,
                s.cut,
                s.cut_sizes,
                tuple((value(x), value(y)) for x, y in s.over),
            ),
            Stage(label, (e,)),
        )

    def packed(self, place: PrepackedOperand) -> Slot:
        """The memory in which an operand stays packed; null for one that the program computes, or may not pack."""
        of = self.values.number(place.of.base)
        if not self.sure or self.values.storage[of].kind not in ("input", "constant"):
            return Number(0)
        _, fill = self.values.source(place.of, place.fill)
        return Pointer(self.values.new(PlannedValue("packed", READY + place.nbytes, of=of, fill=fill)))


@cached_by_identity
@lru_cache(maxsize=1024)
def generated(kernel: Kernel, isa: Isa, streams: frozenset[str] = frozenset(), optimised: bool = False) -> Generated:
    """The LLVM text of a general kernel, generated once for equal kernels."""
    return generate(kernel, isa, streams, optimised)


def substitute(size: Size, sizes: Mapping[str, Size]) -> Size:
    """A size over a general kernel's symbols, in the program's own sizes."""
    if isinstance(size, int):
        return size
    if all(isinstance(sizes[s.name], int) for s in size.symbols()):
        return size.evaluate({s.name: sizes[s.name] for s in size.symbols()})  # type: ignore[misc]
    return size.substitute(sizes)
