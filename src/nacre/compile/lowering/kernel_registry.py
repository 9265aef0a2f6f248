"""The registry of kernels: generators of code for primitives, and the choice among those that serve an equation.

`register_kernel(primitive, target, match, build)` adds one.  A primitive that has a nest needs none: a kernel is then a
faster form of the nest.  A primitive that is a template needs one for every equation.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import count
from typing import Any, Final

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.compile.extensions import changed
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.template_step import TemplateStep
from nacre.ir.graph import Equation
from nacre.ir.primitive import Nest, Primitive, Template
from nacre.native.isa import BY_NAME, Isa

RULE: Final = "of the kernels that match: the most specific target, and then the latest registration"

# the launches for an equation over the views of its operands and of its first result, or the operands to make dense
Builder = Callable[[Isa, Equation, list[View], View], list[TemplateStep] | list[int]]


@dataclass(frozen=True)
class FusedClusters:
    """What builds an equation together with the cluster before it or the one behind it, or both."""

    build: Builder
    before: bool
    behind: bool


# (fusion, isa, equation, the cluster before, the one behind, whether the equation's own result is wanted too)
Fuse = Callable[[Fusion, Isa, Equation, Node | None, Node | None, bool], FusedClusters | None]


@dataclass(frozen=True, eq=False)
class RegisteredKernel:
    """A kernel of a primitive for the instruction sets whose names match `target`, for equations that `match` takes.

    `build` writes the launches of an equation, or it is another nest of the primitive.  `fuse`, if present, writes the
    launches of an equation and clusters around it.
    """

    primitive: Primitive
    target: str
    match: Callable[[Isa, Equation], bool]
    build: Builder | Nest
    fuse: Fuse | None
    version: str | None  # of a kernel from outside the package; without one, programs are not stored on disk
    number: int  # in the order of registration

    @property
    def rule(self) -> Callable[..., Any]:
        """The function that writes the launches or the nest."""
        return self.build.rule if isinstance(self.build, Nest) else self.build

    @property
    def is_ours(self) -> bool:
        """Whether the package's files define it."""
        return self.version is None and self.rule.__module__.startswith("nacre.")

    @property
    def preference(self) -> tuple[int, int]:
        """Greater for what `RULE` prefers: how many characters of the target are certain, and the number."""
        return sum(c not in "*?" for c in self.target), self.number

    def __str__(self) -> str:
        return f"{self.rule.__module__}.{self.rule.__qualname__} for {self.target}"

    def remove(self) -> None:
        """Take the kernel out of the registry; everything is compiled without it from now on."""
        if self in self.primitive.kernels:
            self.primitive.kernels.remove(self)
            changed()


_numbers = count()


def _with_late_kernels(primitive: Primitive) -> list[RegisteredKernel]:
    """The kernels of a primitive, with those of a module that is imported for the first program that needs it."""
    low = primitive.lowering
    if isinstance(low, Template) and low.late:
        import_module(f"nacre.compile.lowering.{low.late}")
    return primitive.kernels


def register_kernel(
    primitive: Primitive,
    target: str,
    match: Callable[[Isa, Equation], bool],
    build: Builder | Nest,
    fuse: Fuse | None = None,
    version: str | None = None,
) -> RegisteredKernel:
    """Add a kernel for the instruction sets whose names match `target`, a name or a pattern with `*` and `?`.

    For a kernel from outside the package all caches of compiled code are cleared; the code is compiled again at its
    next call.  The package's own are registered while the compiler is imported, before anything is compiled.
    """
    if not any(fnmatchcase(name, target) for name in BY_NAME):
        raise ArgumentError(
            f"register_kernel: target must match an instruction set; got {target!r}; "
            f"use one of {', '.join(BY_NAME)}, or a pattern such as '*'"
        )
    if not isinstance(primitive.lowering, Nest | Template):
        raise ArgumentError(
            "register_kernel: the primitive must be a template or have a nest; "
            f"got {primitive.name}, which has no kernel of its own; give it another lowering"
        )
    known = _with_late_kernels(primitive)  # which come before this one
    made = RegisteredKernel(primitive, target, match, build, fuse, version, next(_numbers))
    known.append(made)
    if not made.is_ours:
        changed()
    return made


def always(isa: Isa, e: Equation) -> bool:
    """The match of a kernel that serves every equation of its primitive."""
    return True


def kernels_for(isa: Isa, e: Equation) -> list[RegisteredKernel]:
    """The kernels that serve an equation, the preferred one first."""
    found = [k for k in _with_late_kernels(e.primitive) if fnmatchcase(isa.name, k.target) and k.match(isa, e)]
    return sorted(found, key=lambda k: k.preference, reverse=True)


def kernel_for(isa: Isa, e: Equation) -> RegisteredKernel | None:
    """The kernel for an equation; None if none serves it."""
    return next(iter(kernels_for(isa, e)), None)


def explain_choice(isa: Isa, e: Equation) -> str:
    """The rule, and the kernels that serve an equation, the chosen one first."""
    lines = [f"{k + 1}. {kernel}" for k, kernel in enumerate(kernels_for(isa, e))]
    return "\n".join([f"{e.primitive.name}, {isa.name}: {RULE}", *(lines or ["no kernel matches"])])
