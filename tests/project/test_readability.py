"""Plain technical English: no long sentences and no banned phrases in pages, docstrings, comments and messages."""

from __future__ import annotations

import ast

import pytest

from readability import (
    MOST,
    ROOMS,
    ROOT,
    check,
    comments,
    docstrings,
    faults,
    files,
    internal,
    messages,
    paragraphs,
    private,
    room,
)


def part(name: str) -> str:
    """The part of the project that a file belongs to: a package of nacre, `docs`, or a file at the root."""
    pieces = name.split("/")
    if pieces[0] == "src":
        return pieces[2].removesuffix(".py")
    return pieces[0]


PARTS = sorted({part(str(path.relative_to(ROOT))) for path in files()})


@pytest.mark.parametrize("name", PARTS)
def test_sentences_are_short_and_plain(name: str) -> None:
    found = check(path for path in files() if part(str(path.relative_to(ROOT))) == name)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ROOMS)
def test_rooms_are_packages(name: str) -> None:
    assert any((ROOT / "src" / "nacre" / name).glob("*.py"))


@pytest.mark.parametrize("name", sorted({name.split("/")[0] for name in ROOMS}))
def test_comments_of_tests_use_the_words_of_the_field(name: str) -> None:
    """`check` reads the comments of the package; these are those of its tests."""
    paths = sorted((ROOT / "tests" / name).rglob("*.py"))
    found = [f"{path.name}:{line}: {fault}" for path in paths for line, fault in private(internal(path))]
    assert paths and not found, "\n".join(found)


def test_private_words_in_comments_are_found() -> None:
    text = "x = 1  # kept for later\n# the ending\n# of a band\ny = 2  # type: ignore\n"
    assert list(comments(text)) == [(1, "kept for later"), (2, "the ending of a band")]
    assert [line for line, _ in private(comments(text))] == [1, 2, 2]
    assert not list(private(comments("x = 1  # the cached epilogue of a row panel\n")))
    assert not list(private([(1, "the argument `kept`")]))
    assert room(ROOT / "src" / "nacre" / "codegen" / "gemm" / "tile.py") == "codegen"
    assert not room(ROOT / "src" / "nacre" / "__init__.py")


def test_long_sentences_and_banned_phrases_are_found() -> None:
    long = " ".join(["word"] * (MOST + 1)) + "."
    assert [line for line, _ in faults(paragraphs(f"Short.\n\n{long}\n"))] == [3]
    assert not list(faults(paragraphs(" ".join(["word"] * MOST) + ".\nNext sentence.\n")))
    assert ["continue" in fault for _, fault in faults(paragraphs("It goes on with the rest."))] == [True, True]
    assert not list(faults(paragraphs(f"```\n{long}\n```\n| {long} |\n")))


def test_docstrings_and_messages_are_found() -> None:
    tree = ast.parse(
        'def f(x):\n    """Says what it does.\n\n    >>> f(1)\n    """\n'
        '    raise ValueError(f"f: x must be 1; got {x}; "\n                     "pass 1")\n'
    )
    assert list(docstrings(tree)) == [(2, "Says what it does.")]
    assert next(messages(tree)) == (6, "f: x must be 1; got x; pass 1")
