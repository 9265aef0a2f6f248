"""The policy of `autocast`: which operations run in the low dtype, which in float32, which in their widest operand."""

from __future__ import annotations

from functools import cache
from typing import Final

from nacre.base.records import dataclass
from nacre.ir.primitive import LOW, SINGLE, Flow, Host, Primitive, RangeCheck, Structural, registered

WIDEST, AS_GIVEN = "widest", "as given"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Public functions that consist of several primitives.
LOW_FUNCTIONS: Final = _names(
    """
    matmul linear bilinear einsum tensordot scaled_dot_product_attention
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    """
)
SINGLE_FUNCTIONS: Final = _names(
    """
    mean var std logsumexp norm vector_norm matrix_norm pow
    softmax softmin log_softmax gumbel_softmax
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss gaussian_nll_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
    cosine_similarity pairwise_distance
    """
)


WIDEST_FUNCTIONS: Final = _names("grid_sample pad_sequence pack_sequence")


@cache
def rule_of(primitive: Primitive) -> str:
    """The rule for the operands of a primitive."""
    low = primitive.lowering
    if primitive.outside or isinstance(low, Flow | Host | RangeCheck) or isinstance(primitive.derivative, Structural):
        return AS_GIVEN
    return primitive.precision or WIDEST


def rule_of_function(name: str) -> str:
    """The rule for the operands of a public function that consists of several primitives."""
    if name in LOW_FUNCTIONS:
        return LOW
    return SINGLE if name in SINGLE_FUNCTIONS or name.startswith("special.") else WIDEST


@dataclass(frozen=True)
class AutocastPolicy:
    """The policy of `autocast`, which prints as a table: rows of a rule, its conversion, and the operations."""

    rows: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        width = max(len(rule) for rule, _, _ in self.rows)
        lines: list[str] = []
        for rule, conversion, operations in self.rows:
            first, *rest = [*_wrapped(conversion), *(f"  {line}" for line in _wrapped(operations))]
            lines += [f"{rule:<{width}}  {first}", *(" " * (width + 2) + line for line in rest)]
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(text: str, width: int = 90) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def policy() -> AutocastPolicy:
    """The table."""
    return AutocastPolicy(
        (
            (
                LOW,
                "float16, bfloat16 and float32 are rounded to autocast's dtype, as the result; sums have float32:",
                "@ " + " ".join(sorted(LOW_FUNCTIONS)),
            ),
            (
                SINGLE,
                "float16 and bfloat16 operands are converted to float32, which the result has:",
                " ".join(sorted(SINGLE_FUNCTIONS | {p.name for p in registered().values() if p.precision == SINGLE})),
            ),
            (WIDEST, "operands are converted to the widest of their floating-point dtypes:", "all others"),
            (
                AS_GIVEN,
                "nothing is converted:",
                "operands of float64, complex numbers, integers, bools; operations with a dtype argument; optimisers; "
                "host calls and primitives of one's own",
            ),
        )
    )
