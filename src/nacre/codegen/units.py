"""The functions of a kernel as modules of their own: kernels that call equal ones share their machine code."""

from __future__ import annotations

from nacre.native.text import ModuleText
from nacre.runtime.executable import Unit


def separate_units(module: ModuleText, name: str) -> tuple[Unit, ...]:
    """A unit for each function that a kernel calls, which kernels with equal ones share, and one for the kernel."""
    rest = [n for n in module.functions if n != name]
    found: list[Unit] = []
    done: set[str] = set()
    while rest:
        later: list[str] = []
        for n in rest:
            part = _only(module, n)
            names = tuple(m for m in module.functions if m in part.declarations)
            if done.issuperset(names):
                found.append(Unit(part.exported(), names, (n,)))
                done.add(n)
            else:
                later.append(n)
        assert len(later) < len(rest), f"functions of {name} call each other"
        rest = later
    if not found:
        return ()
    part = _only(module, name)
    return *found, Unit(part.text(), tuple(m for m in module.functions if m in part.declarations))


def _only(module: ModuleText, name: str) -> ModuleText:
    """A module with one of a module's functions, which declares the others that it calls."""
    others = ModuleText(name)
    others.functions = {k: f for k, f in module.functions.items() if k != name}
    found = module.without(others)
    found.name = name
    return found
