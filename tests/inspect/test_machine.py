"""The machine's facts, and the comparison of bits."""

from __future__ import annotations

import numpy as np

from nacre.inspect import bits, machine
from nacre.native.engine import host_target


def test_facts_name_instruction_set_packages_and_compiler() -> None:
    facts = machine.facts()
    assert host_target().isa in facts["instruction set"]
    assert "numpy" in facts["packages"] and "LLVM" in facts["compiler"]


def test_all_modes_give_the_same_bits() -> None:
    found = list(machine.checks())
    assert len(found) == 3
    assert all(c.passed for c in found), found


def test_a_difference_is_found() -> None:
    reference = bits.measure()
    changed = {**reference, "softmax": "0"}
    check = machine._compare("x", reference, lambda: changed)  # pyright: ignore[reportPrivateUsage]
    assert check.differing == ("softmax",) and not check.passed


def test_digest_sees_dtype_shape_and_every_bit_but_not_which_nan() -> None:
    x = np.array([1.0, 2.0], np.float32)
    other = x.copy()
    other.view(np.uint32)[0] ^= 1
    names = {bits.digest(a) for a in (x, other, x[:, None], x.astype(np.float64), -x * 0, x * 0)}
    assert len(names) == 6
    nans = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    assert bits.digest(nans[:1]) == bits.digest(nans[1:])
