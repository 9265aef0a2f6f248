"""Compilation targets: LLVM's target, the linker's triple, and the processor features that a program checks."""

from __future__ import annotations

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.native import engine
from nacre.native.engine import Target
from nacre.native.isa import BY_NAME, INSTRUCTION_SETS, MACHINES, Isa, portable

LIBRARIES = ("gnu", "musl")
LEVELS = {isa.level: isa for isa in reversed(INSTRUCTION_SETS) if isa.level}


@dataclass(frozen=True)
class CompileTarget:
    """A target by its name: the generated code, the linker's triple, and the required processor features."""

    name: str
    target: Target
    machine: str  # x86_64, aarch64
    library: str  # the C library of executables: gnu, musl
    features: tuple[str, ...]

    @property
    def triple(self) -> str:
        """The machine, system and C library, as linkers name them."""
        return f"{self.machine}-linux-{self.library}"

    @property
    def masks(self) -> dict[tuple[int, int, int], int]:
        """The bits that cpuid must have, by leaf, subleaf and register."""
        found: dict[tuple[int, int, int], int] = {}
        for name in self.features:
            leaf, sub, register, bit = MACHINES[self.machine].cpuid[name]
            found[leaf, sub, register] = found.get((leaf, sub, register), 0) | 1 << bit
        return found

    @property
    def saved_state(self) -> int:
        """The bits that the register of the system's saved state must have; 0 if nothing is checked."""
        return BY_NAME[self.target.isa].saved_state if self.features else 0


def names() -> list[str]:
    """All names of targets."""
    triples = [f"{machine}-linux-{library}" for machine in MACHINES for library in LIBRARIES]
    return ["host", *LEVELS, *MACHINES, *triples]


def aim(name: str) -> CompileTarget:
    """The target of a name: `host`, a level such as `x86-64-v3`, or a machine with a C library.

    Raises ArgumentError for any other name, and for `host` on a system other than Linux.
    """
    if name == "host":
        target = engine.host_target()
        machine, _, system = target.triple.partition("-")
        if machine not in MACHINES or "linux" not in system:
            raise ArgumentError(
                f"deploy: the target host needs a Linux machine; this is {target.triple}; name one of "
                f"{', '.join(names()[1:])}"
            )
        on = {f[1:] for f in target.features.split(",") if f.startswith("+")}
        features = tuple(f for f in MACHINES[machine].cpuid if f in on)
        return CompileTarget(name, target, machine, "musl" if "musl" in system else "gnu", features)
    if name in LEVELS:
        return _portable(name, "gnu", LEVELS[name])
    machine, _, rest = name.partition("-")
    library = rest.removeprefix("linux-") if rest else "gnu"
    if machine not in MACHINES or library not in LIBRARIES or (rest and not rest.startswith("linux-")):
        raise ArgumentError(f"deploy: target must be one of {', '.join(names())}; got {name!r}")
    return _portable(name, library, portable(MACHINES[machine]))


def _portable(name: str, library: str, isa: Isa) -> CompileTarget:
    return CompileTarget(name, engine.cross_target(isa.name), isa.machine.name, library, isa.checks)
