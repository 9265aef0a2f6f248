"""The public surface is what was recorded."""

from __future__ import annotations

import json

from promised import differences, public_surface, recorded


def test_the_public_surface_changes_on_purpose_only() -> None:
    found = json.loads(json.dumps(public_surface()))
    assert differences(found, recorded()) == [], "if this is wanted, run tests/promised.py --write"
