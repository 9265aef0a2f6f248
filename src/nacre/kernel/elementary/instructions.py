"""The instructions of definitions: an emitter receives no others.

    print(listing())

Letters stand for types: f is float32 or float64, h float16 or bfloat16, i an integer of 8 to 64 bits.
The letter b stands for a condition, x for any of them.  f' and i' are another type of the same kind.
Integers have no signedness; instructions have.
"""

from __future__ import annotations

from nacre.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of one lane: its name, the types of its operands and result, and its meaning."""

    name: str
    types: str
    meaning: str

    @property
    def operands(self) -> int:
        """The number of operands."""
        return len(self.types.partition("->")[0].split())


_ALL = (
    # floating point, each rounded once to nearest, ties to even
    Instruction("fadd", "f f -> f", "a + b"),
    Instruction("fsub", "f f -> f", "a - b"),
    Instruction("fmul", "f f -> f", "a · b"),
    Instruction("fdiv", "f f -> f", "a / b"),
    Instruction("fma", "f f f -> f", "a · b + c, rounded once"),
    Instruction("sqrt", "f -> f", "the square root; NaN below zero"),
    # floating point, exact
    Instruction("fneg", "f -> f", "a with the other sign"),
    Instruction("fabs", "f -> f", "a without its sign"),
    Instruction("copysign", "f f -> f", "a with the sign of b"),
    Instruction("floor", "f -> f", "the nearest whole number not above a"),
    Instruction("ceil", "f -> f", "the nearest whole number not below a"),
    Instruction("ftrunc", "f -> f", "the nearest whole number not farther from zero than a"),
    Instruction("roundeven", "f -> f", "the nearest whole number, the even one of two"),
    # comparisons of floating point: `o` is false and `u` is true if an operand is NaN
    Instruction("oeq", "f f -> b", "a = b, and neither is NaN"),
    Instruction("olt", "f f -> b", "a < b, and neither is NaN"),
    Instruction("ole", "f f -> b", "a ≤ b, and neither is NaN"),
    Instruction("ogt", "f f -> b", "a > b, and neither is NaN"),
    Instruction("oge", "f f -> b", "a ≥ b, and neither is NaN"),
    Instruction("une", "f f -> b", "a ≠ b, or one is NaN"),
    Instruction("uno", "f f -> b", "one is NaN"),
    # integers, which wrap
    Instruction("add", "i i -> i", "a + b"),
    Instruction("sub", "i i -> i", "a - b"),
    Instruction("mul", "i i -> i", "a · b"),
    Instruction("sdiv", "i i -> i", "a / b of signed integers toward zero, for b ≠ 0 and no overflow"),
    Instruction("udiv", "i i -> i", "a / b of unsigned integers, for b ≠ 0"),
    Instruction("and", "i i -> i, b b -> b", "bitwise and"),
    Instruction("or", "i i -> i, b b -> b", "bitwise or"),
    Instruction("xor", "i i -> i, b b -> b", "bitwise exclusive or"),
    Instruction("shl", "i i -> i", "a shifted left by b, which is less than the width"),
    Instruction("lshr", "i i -> i", "a shifted right by b, which is less than the width; zeros come in"),
    Instruction("ashr", "i i -> i", "a shifted right by b, which is less than the width; the sign comes in"),
    # comparisons of integers
    Instruction("eq", "i i -> b", "a = b"),
    Instruction("ne", "i i -> b", "a ≠ b"),
    Instruction("slt", "i i -> b", "a < b of signed integers"),
    Instruction("sle", "i i -> b", "a ≤ b of signed integers"),
    Instruction("sgt", "i i -> b", "a > b of signed integers"),
    Instruction("sge", "i i -> b", "a ≥ b of signed integers"),
    Instruction("ult", "i i -> b", "a < b of unsigned integers"),
    Instruction("ule", "i i -> b", "a ≤ b of unsigned integers"),
    Instruction("ugt", "i i -> b", "a > b of unsigned integers"),
    Instruction("uge", "i i -> b", "a ≥ b of unsigned integers"),
    # choice and conversion
    Instruction("select", "b x x -> x", "the second operand where the condition holds, else the third"),
    Instruction("trunc", "i -> i'", "the low bits of a wider integer"),
    Instruction("zext", "i -> i', b -> i", "a wider integer, zeros in front"),
    Instruction("sext", "i -> i'", "a wider integer, copies of the sign in front"),
    Instruction("fptrunc", "f -> f', f -> h", "a narrower float, rounded once; not to bfloat16"),
    Instruction("fpext", "f -> f', h -> f", "a wider float; not from bfloat16"),
    Instruction("sitofp", "i -> f", "a signed integer as a float, rounded once"),
    Instruction("uitofp", "i -> f", "an unsigned integer as a float, rounded once"),
    Instruction("fptosi", "f -> i", "a signed integer toward zero, for floats in its range"),
    Instruction("fptoui", "f -> i", "an unsigned integer toward zero, for floats in its range"),
    Instruction("fptosi_sat", "f -> i", "a signed integer toward zero; the nearest end out of its range, 0 for NaN"),
    Instruction("fptoui_sat", "f -> i", "an unsigned integer toward zero; the nearest end out of its range, 0 for NaN"),
    Instruction("bitcast", "x -> x", "the bits as another type of the same width"),
)

INSTRUCTIONS = {i.name: i for i in _ALL}


def listing() -> str:
    """All instructions, one on each line."""
    return "\n".join(f"{i.name:<11} {i.types:<20} {i.meaning}" for i in _ALL)
