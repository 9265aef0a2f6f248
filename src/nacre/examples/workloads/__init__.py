"""The workloads of `nacre bench`: well-known computations, written as users would write them.

Each has two sizes: the known one, and a tiny one for tests.  Weights and data are drawn from fixed seeds.
"""

from __future__ import annotations

from nacre.base.errors import ArgumentError
from nacre.examples.workloads.networks import NETWORKS
from nacre.examples.workloads.standard import STANDARD
from nacre.examples.workloads.workload import Workload

WORKLOADS: dict[str, Workload] = {w.name: w for w in (*STANDARD, *NETWORKS)}


def chosen(names: list[str]) -> list[Workload]:
    """The workloads with these names, or all without names; raises ArgumentError for an unknown name."""
    for name in names:
        if name not in WORKLOADS:
            raise ArgumentError(f"workloads: the name must be one of {', '.join(WORKLOADS)}; got {name!r}")
    return [WORKLOADS[n] for n in names] if names else list(WORKLOADS.values())
