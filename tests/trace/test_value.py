"""Values: slots, views, objects of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ops import view
from nacre.trace.value import Payload, fresh, is_concrete, layout_of, make, public_class, stripped

X = from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_values_are_of_the_public_class() -> None:
    assert public_class() is nc.Tensor and type(make(X.type, X.content)) is nc.Tensor


def test_layouts() -> None:
    assert X.layout is None and layout_of(X).strides == (3, 1) and layout_of(X).offset == 0
    turned = view.flip(view.permute(X, (1, 0)), (0,))
    assert (layout_of(turned).strides, layout_of(turned).offset) == ((-1, 3), 2) and turned.content is X.content
    np.testing.assert_array_equal(to_numpy(turned), to_numpy(X).T[::-1])


def test_a_view_that_is_dense_again_has_no_layout() -> None:
    assert view.flip(view.flip(X, (0, 1)), (0, 1)).layout is None


def test_objects_of_their_own() -> None:
    node = object()
    tracked = make(X.type, X.content, None, node)
    assert stripped(X) is X and stripped(tracked).node is None and stripped(tracked).content is X.content
    copy = fresh(tracked)
    assert copy is not tracked and copy.node is node and copy.content is X.content and copy.type is X.type
    assert is_concrete(X) and not is_concrete(make(X.type, Payload()))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (nc.zeros((2, 3)), nc.ShapeError),
        (nc.ones(4, dtype=nc.float64), nc.DTypeError),
        ([1.0], nc.KindError),
        (nc.ones(4).content, nc.KindError),
        (None, nc.KindError),
    ],
)
def test_a_tensor_takes_only_numbers_of_its_type(given: Any, kind: type[nc.Error]) -> None:
    y, view_of_y = nc.ones((4,)), nc.ones((5,))[1:]
    for x in (y, view_of_y):
        with pytest.raises(kind, match="data: the value must"):
            x.data = given
    assert nc.sum(y).item() == 4 and view_of_y.tolist() == [1, 1, 1, 1]
