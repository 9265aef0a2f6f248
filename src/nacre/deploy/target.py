"""Compilation targets: LLVM's target, the linker's triple, and the processor features that a program checks."""

from __future__ import annotations

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.native import engine
from nacre.native.engine import Target

MACHINES = {"x86_64": ("x86-64-v3", "avx2"), "aarch64": ("generic", "neon")}
LIBRARIES = ("gnu", "musl")
LEVELS = {"x86-64-v3": "avx2", "x86-64-v4": "avx512"}

# the place of a feature in cpuid: leaf, subleaf, register (eax, ebx, ecx, edx), bit
FEATURES = {
    "sse3": (1, 0, 2, 0), "ssse3": (1, 0, 2, 9), "fma": (1, 0, 2, 12), "sse4.1": (1, 0, 2, 19),
    "sse4.2": (1, 0, 2, 20), "movbe": (1, 0, 2, 22), "popcnt": (1, 0, 2, 23), "aes": (1, 0, 2, 25),
    "xsave": (1, 0, 2, 27), "avx": (1, 0, 2, 28), "f16c": (1, 0, 2, 29), "bmi": (7, 0, 1, 3), "avx2": (7, 0, 1, 5),
    "bmi2": (7, 0, 1, 8), "avx512f": (7, 0, 1, 16), "avx512dq": (7, 0, 1, 17), "adx": (7, 0, 1, 19),
    "avx512ifma": (7, 0, 1, 21), "avx512cd": (7, 0, 1, 28), "sha": (7, 0, 1, 29), "avx512bw": (7, 0, 1, 30),
    "avx512vl": (7, 0, 1, 31), "avx512vbmi": (7, 0, 2, 1), "avx512vbmi2": (7, 0, 2, 6), "gfni": (7, 0, 2, 8),
    "vaes": (7, 0, 2, 9), "vpclmulqdq": (7, 0, 2, 10), "avx512vnni": (7, 0, 2, 11), "avx512bitalg": (7, 0, 2, 12),
    "avx512vpopcntdq": (7, 0, 2, 14), "avx512vp2intersect": (7, 0, 3, 8), "avx512fp16": (7, 0, 3, 23),
    "avxvnni": (7, 1, 0, 4), "avx512bf16": (7, 1, 0, 5), "lzcnt": (0x80000001, 0, 2, 5),
}  # fmt: skip
VERSION_3 = (
    "sse3",
    "ssse3",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "movbe",
    "xsave",
    "avx",
    "f16c",
    "fma",
    "bmi",
    "bmi2",
    "avx2",
    "lzcnt",
)
VERSION_4 = (*VERSION_3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
STATE_OF_AVX, STATE_OF_AVX512 = 0x06, 0xE6  # register states that the system must save for each thread


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
            leaf, sub, register, bit = FEATURES[name]
            found[leaf, sub, register] = found.get((leaf, sub, register), 0) | 1 << bit
        return found

    @property
    def saved_state(self) -> int:
        """The bits that the register of the system's saved state must have; 0 if nothing is checked."""
        if not self.features:
            return 0
        return STATE_OF_AVX512 if "avx512f" in self.features else STATE_OF_AVX


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
        features = tuple(f for f in FEATURES if f in on) if machine == "x86_64" else ()
        return CompileTarget(name, target, machine, "musl" if "musl" in system else "gnu", features)
    if name in LEVELS:
        return _portable(name, "x86_64", "gnu", LEVELS[name])
    machine, _, rest = name.partition("-")
    library = rest.removeprefix("linux-") if rest else "gnu"
    if machine not in MACHINES or library not in LIBRARIES or (rest and not rest.startswith("linux-")):
        raise ArgumentError(f"deploy: target must be one of {', '.join(names())}; got {name!r}")
    return _portable(name, machine, library, MACHINES[machine][1])


def _portable(name: str, machine: str, library: str, isa: str) -> CompileTarget:
    features = {"avx2": VERSION_3, "avx512": VERSION_4}.get(isa, ())
    return CompileTarget(name, engine.cross_target(isa), machine, library, features)
