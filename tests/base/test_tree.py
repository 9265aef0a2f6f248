"""Nested containers: flattening and rebuilding them."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.base import tree
from nacre.base.errors import ArgumentError

Point = namedtuple("Point", "x y")

trees = st.recursive(
    st.integers() | st.none() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda p: Point(*p))
    ),
    max_leaves=12,
)


@given(trees)
def test_round_trip(given_tree: Any) -> None:
    leaves, structure = tree.flatten(given_tree)
    rebuilt = tree.unflatten(structure, leaves)
    assert rebuilt == given_tree and type(rebuilt) is type(given_tree)
    assert structure.leaves == len(leaves) and hash(structure) == hash(tree.flatten(given_tree)[1])


@given(trees)
def test_map_keeps_structure(given_tree: Any) -> None:
    mapped = tree.tree_map(lambda leaf: (str(leaf), 1)[0], given_tree)
    assert tree.flatten(mapped)[1] == tree.flatten(given_tree)[1]


def test_structures_distinguish_containers() -> None:
    found = [
        tree.flatten(t)[1]
        for t in ((1, 2), [1, 2], {"a": 1, "b": 2}, {"a": 1, "c": 2}, Point(1, 2), (1, (2,)), 1, None, (), [])
    ]
    assert len(set(found)) == len(found)
    assert str(tree.flatten((1, [2, None]))[1]) == "(*, (*, NoneType()))"


class Box:
    def __init__(self, content: Any, label: str) -> None:
        self.content, self.label = content, label


class Crate(Box):
    pass


def test_registered_classes_and_those_derived_from_them() -> None:
    tree.register(Box, lambda b: ([b.content], b.label), lambda label, children: Box(children[0], label))
    leaves, structure = tree.flatten([Box((1, 2), "a"), Crate(3, "b")])
    assert leaves == [1, 2, 3]
    first, _ = tree.unflatten(structure, [4, 5, 6])
    assert first.content == (4, 5) and first.label == "a"
    assert tree.flatten(Box(1, "a"))[1] != tree.flatten(Box(1, "b"))[1]


def test_replacing_reuses_unchanged_containers() -> None:
    box, crate = Box(Point(1, "x"), "a"), Box(5, "b")
    held = (box, crate, [7], {"k": (8, 9)})
    rebuilt: list[Any] = []
    found = tree.replaced(held, iter([1, "y", 5, 7, 8, 9]), rebuilt)
    assert found[0] is not box and found[0].content == Point(1, "y") and found[0].label == "a"
    assert found[1] is crate and found[2] == [7] and found[2] is not held[2] and found[3]["k"] is held[3]["k"]
    assert {type(r) for r in rebuilt} == {Box, Point, list, dict, tuple}
    assert tree.replaced((box, crate), iter([1, "x", 5]), []) == (box, crate)


def test_mismatched_structures_are_refused() -> None:
    _, structure = tree.flatten((1, 2))
    with pytest.raises(ArgumentError, match="2 leaves"):
        tree.unflatten(structure, [1])
    with pytest.raises(ArgumentError, match="one structure"):
        tree.tree_map(lambda a, b: a, (1, 2), [1, 2])


def test_other_dictionaries_are_leaves() -> None:
    held = OrderedDict(a=1)
    assert tree.flatten(held) == ([held], tree.LEAF)
