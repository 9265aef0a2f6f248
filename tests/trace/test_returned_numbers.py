"""Captured numbers that a compiled function returns: each call gives the number that the place has then."""

from __future__ import annotations

from typing import Any

import nacre as nc


def test_a_number_that_is_a_result_is_that_of_the_call() -> None:
    rate = 1.0

    def scaled(x: Any) -> dict[str, Any]:
        return {"y": x * rate, "rate": rate, "negative": [-rate]}

    f = nc.jit(scaled)
    for rate in (1.0, 2.0, 3.0, 4.0, 5.0):
        found = f(nc.ones(2))
        assert (found["y"].tolist(), found["rate"], found["negative"]) == ([rate, rate], rate, [-rate])


def test_a_number_that_alone_is_the_result() -> None:
    step = 1
    f = nc.jit(lambda x: (x, step))
    for step in range(6):
        assert f(nc.ones(2))[1] == step
