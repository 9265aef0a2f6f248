"""The program that measures all numbers of float32: samples of its blocks, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernel.elementary import exhaustive
from kernel.elementary.ulps import ulps_by_float64
from nacre.base.dtypes import bfloat16, float16, float32


def test_blocks_hold_every_number_once() -> None:
    firsts = {exhaustive.block(k)[:1].view(np.uint32).item() for k in range(exhaustive.BLOCKS)}
    assert firsts == set(range(0, 1 << 32, exhaustive.BLOCK))


@pytest.mark.parametrize("op", exhaustive.UNARY)
def test_a_block_of_each_function(op: str) -> None:
    found = exhaustive.measure(op, exhaustive.UNARY.index(op))
    assert found["error"] <= exhaustive.BOUND and found["reference"] <= exhaustive.REFERENCE_BOUND


@pytest.mark.slow
@pytest.mark.parametrize("op", exhaustive.UNARY)
def test_more_blocks(op: str) -> None:
    for k in range(100, 140):
        found = exhaustive.measure(op, k)
        assert found["error"] <= exhaustive.BOUND and found["reference"] <= exhaustive.REFERENCE_BOUND, (op, k)


def test_the_program_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    progress = exhaustive.Progress(path)
    progress.add("exp", {"error": 0.75, "at": "0x1p+0", "reference": 0.5}, 2.0)
    progress.save()
    again = exhaustive.Progress(path)
    assert again.of("exp") == {"blocks": 1, "error": 0.75, "at": "0x1p+0", "reference": 0.5, "seconds": 2.0}
    assert again.of("log")["blocks"] == 0
    monkeypatch.setattr(exhaustive, "definitions", lambda: "changed")
    assert exhaustive.Progress(path).of("exp")["blocks"] == 0


def test_errors_of_special_values() -> None:
    """Infinities, NaN and numbers beyond the greatest one, where an error of any size is infinite."""
    for dtype, top in ((float32, 3.4028234663852886e38), (float16, 65504.0), (bfloat16, 3.3895313892515355e38)):
        got = np.array([np.inf, np.inf, -np.inf, np.nan, np.nan, 1.0, top, np.inf, 1.0]).astype(dtype.numpy)
        exact = np.array([np.inf, top * 2, np.inf, np.nan, 1.0, np.nan, top, top / 2, 1.0])
        wanted = [0.0, 0.0, np.inf, 0.0, np.inf, np.inf, 0.0, np.inf, 0.0]
        assert ulps_by_float64(got, exact, dtype).tolist() == wanted
    assert ulps_by_float64(np.float32([1.0, 2.0**-149]), np.array([1 + 2.0**-23, 0.0]), float32).tolist() == [1.0, 1.0]
