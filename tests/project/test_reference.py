"""Every public name is documented with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import nacre as nc
from nacre import data, deploy, nn, optim, train

WEBSITE = Path(__file__).parents[2] / "docs" / "website"
sys.path.insert(0, str(WEBSITE))
public: Any = import_module("public_names")
sys.path.remove(str(WEBSITE))

SPACES = public.spaces()
NAMES = {name: held for space in SPACES for part in space.parts for name, held in part.objects()}
CODE = {name: held for name, held in NAMES.items() if inspect.isroutine(held) or isinstance(held, type)}
RETURNED = {name for names in public.RETURNED.values() for name in names} | {  # made by what has an example
    "nacre.deploy.Deployed",
    "nacre.train.Checkpoint",
    *(
        f"nacre.inspect.{name}"
        for name in (
            "explain.Explanation",
            "profile.Profile",
            "profile.Row",
            "timing.Times",
            "ceilings.Ceilings",
            "machine.Check",
            "machine.Kept",
        )
    ),
}
MODULES = sorted(
    {
        "nacre",
        "nacre.deploy",
        "nacre.inspect.plot",
        *(module for module in public.sources(SPACES).values() if module.startswith("nacre.")),
    }
)
GIVEN = {"nc": nc, "nn": nn, "optim": optim, "data": data, "deploy": deploy, "train": train, "F": nn.functional}


def has_example(held: Any) -> bool:
    return ">>> " in (held.__doc__ or "")


@pytest.mark.parametrize("name", sorted(CODE))
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    held = CODE[name]
    doc = vars(held).get("__doc__") if isinstance(held, type) else held.__doc__
    assert doc and not doc.startswith(f"{held.__name__}("), f"{name} needs a docstring of its own"
    spared = name in RETURNED or (isinstance(held, type) and issubclass(held, BaseException))
    assert spared or has_example(held), f"{name} needs an example in its docstring"


@pytest.mark.parametrize("name", sorted(n for n, held in CODE.items() if isinstance(held, type)))
def test_public_methods_have_docstrings(name: str) -> None:
    lacking = [word for word, member in public.members(CODE[name]).items() if not member.__doc__]
    assert not lacking, f"{name}: {lacking} need docstrings"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "nacre.data.arrow":
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(import_module(name), extraglobs=GIVEN, optionflags=doctest.ELLIPSIS)
    assert failed == 0
