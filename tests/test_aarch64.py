"""AArch64 gives the bits that this machine gives: kernels for NEON run in an emulator, every result is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from aarch64 import fused, image, programs
from aarch64.image import Job
from aarch64.programs import Case
from nacre.compile.pipeline import compile_graph
from nacre.runtime import grains, plan

THREADS = (1, 3)
SETS: dict[str, Callable[[], Iterable[Case]]] = {
    "alone": programs.alone,
    "of-all-bits": programs.of_all_bits,
    "among-others": programs.among_others,
    "of-views": programs.of_views,
    "derivatives": programs.derivatives,
    "inference": fused.inference,
    "symbolic": fused.symbolic,
    "training": fused.training,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(image.missing()), reason=f"not installed: {', '.join(image.missing())}"),
]


@pytest.mark.parametrize("name", SETS)
def test_the_same_bits_as_here(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = list(SETS[name]())
    compiled = [compile_graph(c.graph, target=image.NEON).executable for c in cases]
    jobs = [Job(e, c.inputs, n) for n in THREADS for e, c in zip(compiled, cases, strict=True)]
    with monkeypatch.context() as patch:
        for module, cost in ((plan, "ALONE_COST"), (grains, "SHARE_COST"), (grains, "CHUNK_COST")):
            patch.setattr(module, cost, 1)  # the smallest work is divided where a plan is for several threads
        results = image.run(jobs, tmp_path)
    found = (programs.difference(c, r) for c, r in zip(cases * len(THREADS), results, strict=True))
    assert [d for d in found if d] == []
