"""Static single assignment: few phis, those of loops and of branches, and reads without a value."""

from __future__ import annotations

import pytest

from nacre.native.python.ssa import BasicBlock, Computed, Construction, Phi, Uninitialised
from nacre.native.python.types import BOOL, IntKind

WORD = IntKind(64, False)


def number(ssa: Construction, n: int) -> Computed:
    return ssa.add(WORD, (), lambda f, _: f.const("i64", n))


def diamond(ssa: Construction, yes: int | None, no: int | None) -> None:
    """A branch whose arms write a number to x."""
    then, other, end = (BasicBlock(name, sealed=False) for name in ("then", "other", "end"))
    ssa.jump(then, other, condition=ssa.add(BOOL, (), lambda f, _: f.const("i1", True)))
    for block, n in ((then, yes), (other, no)):
        ssa.begin(block)
        ssa.seal(block)
        if n is not None:
            ssa.write("x", number(ssa, n))
        ssa.jump(end)
    ssa.begin(end)
    ssa.seal(end)


def test_a_branch_makes_one_phi() -> None:
    ssa = Construction()
    diamond(ssa, 1, 2)
    found = ssa.read("x", WORD)
    assert isinstance(found, Phi) and len(found.operands) == 2
    assert ssa.read("x", WORD) is found


def test_a_variable_that_no_arm_writes_has_no_phi() -> None:
    ssa = Construction()
    first = number(ssa, 0)
    ssa.write("x", first)
    diamond(ssa, None, None)
    assert ssa.read("x", WORD) is first and ssa.here is not None and ssa.here.phis == []


@pytest.mark.parametrize(("written", "phis"), [(False, 0), (True, 1)])
def test_a_loop_has_phis_only_for_what_it_writes(written: bool, phis: int) -> None:
    ssa = Construction()
    first = number(ssa, 0)
    ssa.write("x", first)
    head, body, end = (BasicBlock(name, sealed=False) for name in ("head", "body", "end"))
    ssa.jump(head)
    ssa.begin(head)
    condition = ssa.add(BOOL, (ssa.read("x", WORD),), lambda f, v: f.icmp("ne", v[0], 0))
    ssa.jump(body, end, condition=condition)
    ssa.begin(body)
    ssa.seal(body)
    if written:
        ssa.write("x", number(ssa, 1))
    ssa.jump(head)
    ssa.seal(head)
    ssa.begin(end)
    ssa.seal(end)
    found = ssa.read("x", WORD)
    assert len(head.phis) == phis and (found is first) != written
    assert condition.operands[0].now() is found


def test_nested_loops_drop_the_phis_of_both() -> None:
    ssa = Construction()
    first = number(ssa, 0)
    ssa.write("x", first)
    heads: list[BasicBlock] = []
    for _ in range(2):
        head = BasicBlock("head", sealed=False)
        ssa.jump(head)
        ssa.begin(head)
        heads.append(head)
    read = ssa.read("x", WORD)
    assert isinstance(read, Phi)
    for head in reversed(heads):
        after = BasicBlock("after", sealed=False)
        ssa.jump(head, after, condition=ssa.add(BOOL, (), lambda f, _: f.const("i1", True)))
        ssa.seal(head)
        ssa.begin(after)
        ssa.seal(after)
    assert read.now() is first and not any(head.phis for head in heads)
    assert ssa.read("x", WORD) is first


@pytest.mark.parametrize("numbers", [(1, None), (None, 2), (None, None)])
def test_a_way_without_a_value_is_found(numbers: tuple[int | None, int | None]) -> None:
    ssa = Construction()
    diamond(ssa, *numbers)
    with pytest.raises(Uninitialised) as caught:
        ssa.read("x", WORD, "the reader")
    assert caught.value.reader == "the reader"


def test_code_behind_a_return_is_not_written() -> None:
    ssa = Construction()
    ssa.jump()
    unreached = BasicBlock("unreached")
    ssa.begin(unreached)
    assert ssa.here is None and unreached not in ssa.parts
