"""Errors are Nacre's and the fitting builtin's."""

from __future__ import annotations

import inspect

import pytest

from nacre.base import errors


@pytest.mark.parametrize("kind", [c for _, c in inspect.getmembers(errors, inspect.isclass) if c is not errors.Error])
def test_every_error_is_ours_and_a_builtin_too(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.Error) and kind.__doc__
    general = (Exception, BaseException, object)
    assert any(base.__module__ == "builtins" and base not in general for base in kind.__mro__)


def test_explanations_show_wrong_and_right_code() -> None:
    text = errors.explain("f: what", "a = 1\nb", "Because.", "c")
    assert text == "f: what\n\n  This code\n    a = 1\n    b\n\n  Because.\n\n  Write\n    c"
