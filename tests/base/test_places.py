"""The owner of a source file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import nacre
from nacre.base.hints import closest
from nacre.base.places import is_users
from nacre.cli import faults
from nacre.cli.suggestions import nearest

SOURCE = Path(nacre.__file__).parent
INSTALLED = pytest.__file__


def test_files_of_the_user_of_packages_and_of_python(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.touch()
    assert is_users(str(own)) and is_users(str(own), installed=True)
    for file in (nacre.__file__, json.__file__, os.__file__, "<frozen runpy>"):
        assert not is_users(file) and not is_users(file, installed=True)
    for file in (INSTALLED, "<stdin>"):
        assert not is_users(file) and is_users(file, installed=True)
    assert not is_users(str(tmp_path / "gone.py")) and is_users(str(tmp_path / "gone.py"), installed=True)


def test_a_link_to_the_package_is_the_package(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(SOURCE)
    assert not is_users(str(tmp_path / "link" / "base" / "places.py"), installed=True)


def test_close_names_and_user_files_are_each_found_by_one_function() -> None:
    assert faults.is_users is is_users
    assert closest("comple", ["compile"], cutoff=0.55) == nearest("comple", ["compile"])
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    for words in ("get_close_matches(", "sysconfig.get_paths("):
        assert len([path for path, text in texts.items() if words in text]) == 1, words


def test_texts_that_hints_compare_may_have_capitals() -> None:
    assert nearest("DIGITS", ["digits"]) == "; did you mean digits?"
