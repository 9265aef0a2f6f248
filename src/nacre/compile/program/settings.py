"""Settings of compilations by environment variables."""

from __future__ import annotations

import os


def is_verified() -> bool:
    """Whether each compilation is verified after every pass (NACRE_VERIFY=1; see `compile/verification`)."""
    return os.environ.get("NACRE_VERIFY", "").strip() not in ("", "0")
