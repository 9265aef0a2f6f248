"""The LLVM texts of the native modules of the runtime; they are written without what runs them."""

from __future__ import annotations

from nacre.native.engine import Target
from nacre.native.python.cached import cached_module


def buffer_text(target: Target) -> str:
    """The LLVM text of the type of buffers, and of its allocator."""
    return cached_module("nacre.runtime.heaptype", ("new", "renew", "empty_cache", "create", "calibrate"), target)


def driver_text(target: Target, stamped: bool = False) -> str:
    """The LLVM text of the driver, the same for every program; the stamped one records the times of launches."""
    name = "nacre.runtime.stamped_driver" if stamped else "nacre.runtime.driver"
    return cached_module(name, ("run", "run_unless"), target)


def host_call_text(target: Target) -> str:
    """The LLVM text of the kernel of host calls, and of the function that runs a plan with them."""
    return cached_module("nacre.runtime.host_call", ("call", "run"), target)


def check_text(target: Target) -> str:
    """The LLVM text of the kernel of checks."""
    return cached_module("nacre.runtime.check", ("check",), target)


def capsule_text(target: Target) -> str:
    """The LLVM text of the capsules of DLPack."""
    entries = ("seal", "consume", "delete", "delete_versioned")
    return cached_module("nacre.runtime.capsule", entries, target)
