"""What the comparisons with other libraries share: JAX computes in double precision, on the CPU.

Each file asks for its peer with `pytest.importorskip`, so that it is skipped by name where the peer is not installed.
`python3 run.py peers` installs all of them into an environment of its own, and runs this folder.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
