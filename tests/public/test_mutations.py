"""Randomly changed files, for everything that reads, compiles and runs them; `mutations.py` is the complete run."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

import mutations
from deploy.calls import can_link  # type: ignore[import-not-found]


def faults(kind: str, folder: Path, seed: int, count: int) -> list[str]:
    if kind == "npy" and not can_link():
        pytest.skip("nothing here links for this machine")
    found = mutations.run(kind, folder, seed, count)
    assert sum(found.values()) == count
    return [f"{number} × {outcome}" for outcome, number in found.items() if outcome.startswith("FAULT")]


@pytest.mark.parametrize("kind", mutations.KINDS)
def test_a_sample_of_mutations_raises_only_nacre_errors(kind: str, tmp_path: Path) -> None:
    assert faults(kind, tmp_path, 7, mutations.SHARES[kind] // 100) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", mutations.KINDS)
def test_all_mutations_raise_only_nacre_errors(kind: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    assert faults(kind, tmp_path, seed, mutations.SHARES[kind]) == [], f"seed {seed}"


def test_hangs_and_crashes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation that never ends, and one that ends the process, are faults by their numbers."""
    script = tmp_path / "broken.py"
    script.write_text(
        f"""if True:
    import os, sys, time
    from pathlib import Path
    sys.path.insert(0, {str(Path(mutations.__file__).parent)!r})
    import mutations
    mutations.PATIENCE = 1

    def broken(folder):
        def attack(rng):
            pick = rng.random()
            if pick < 0.3:
                os.abort()
            if pick < 0.5:
                time.sleep(100)
        return attack

    mutations.KINDS = dict(broken=broken)
    folder, seed, first, last = sys.argv[4::2]
    mutations.work("broken", Path(folder), int(seed), int(first), int(last))
    """,
        encoding="utf-8",
    )
    monkeypatch.setattr(mutations, "__file__", str(script))
    found = mutations.run("broken", tmp_path / "into", 3, 8)
    assert sum(found.values()) == 8
    assert found[f"FAULT the process ended with {-signal.SIGABRT}"] > 0
    assert any(outcome.startswith("FAULT Hang") for outcome in found)
