"""The pool's text: every target defines the same names (the pool's tests cover their effect)."""

from __future__ import annotations

from nacre.native import engine
from nacre.native.pool import OFFERED, pool_text


def test_other_targets_have_the_same_names() -> None:
    arm = engine.emit_assembly(pool_text(engine.cross_target("neon")), engine.cross_target("neon"))
    alone = engine.emit_assembly(pool_text(engine.host_target(), linux=False), engine.host_target())
    for name in (*OFFERED, "nacre_pool_set", "nacre_pool_started", "nacre_pool_forked"):
        assert f"{name}:" in arm and f"{name}:" in alone
    assert "yield" in arm
