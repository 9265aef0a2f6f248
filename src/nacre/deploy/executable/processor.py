"""The check of the processor's features, which runs on any processor of the machine's kind."""

from __future__ import annotations

from nacre.deploy.executable.layouts import FeatureBits, Requirements
from nacre.native.python.declarations import native
from nacre.native.python.intrinsics import cpuid, target_is, xgetbv


@native(baseline=True)
def has_features(need: FeatureBits) -> bool:
    """Whether the processor has the leaf and all of its bits."""
    last, _, _, _ = cpuid(need.leaf & 0x80000000, 0)
    if last < need.leaf:
        return False
    if need.subleaf != 0:
        last_subleaf, _, _, _ = cpuid(need.leaf, 0)
        if last_subleaf < need.subleaf:
            return False
    a, b, c, d = cpuid(need.leaf, need.subleaf)
    found = a
    if need.register == 1:
        found = b
    elif need.register == 2:
        found = c
    elif need.register == 3:
        found = d
    return (found & need.bits) == need.bits


@native(baseline=True)
def has_all(needs: Requirements) -> bool:
    """Whether the processor has all features, and the system saves the registers."""
    for k in range(needs.count):
        if not has_features(needs.features[k]):
            return False
    return needs.saved_state == 0 or (xgetbv(0) & needs.saved_state) == needs.saved_state


@native(symbol="nacre.meets", baseline=True)
def meets(needs: Requirements) -> bool:
    """Whether this processor has what code needs; only x86-64 processors differ."""
    if target_is("x86_64"):
        return has_all(needs)
    return True
