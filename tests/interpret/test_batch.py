"""Every operation of the table under vmap: the same bits as a loop over examples."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

from nacre.base.dtypes import bool_, float32, float64, int32
from nacre.base.errors import TraceError
from nacre.base.types import TensorType
from nacre.interpret.batch import batch, batch_graph, to_axis
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.stage import stage
from nacre.ops.control import call
from nacre.ops.pointwise import add, mul
from nacre.trace.value import Value
from ops.row import Row
from ops.samples import Array
from ops.table import ROWS

SIZE = 3


def samples(row: Row) -> list[list[tuple[Array, ...]]]:
    """For some operands of the row, several examples of the same types."""
    dtype = next(d for d in (float32, float64, int32, bool_, *row.dtypes) if d in row.dtypes)
    made = [row.inputs(dtype, np.random.default_rng(crc32(row.name.encode()) + k)) for k in range(SIZE)]
    return [list(group) for group in zip(*made, strict=True)][:4]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if r.inputs(r.dtypes[0], np.random.default_rng(0))[0]],
    ids=lambda row: row.name,
)
def test_results_equal_those_of_a_loop(row: Row) -> None:
    for group in samples(row):
        count = len(group[0])
        masks = {
            (True,) * count,
            tuple(k == 0 for k in range(count)),
            tuple(k == count - 1 for k in range(count)),
        }
        for mask in masks:
            check(row, group, mask, axis=0)
        check(row, group, (True,) * count, axis=-1)


def check(row: Row, group: list[tuple[Array, ...]], mask: tuple[bool, ...], axis: int) -> None:
    xs, axes = [], []
    for k, batched in enumerate(mask):
        place = axis % (group[0][k].ndim + 1)
        xs.append(from_numpy(np.stack([g[k] for g in group], place) if batched else group[0][k]))
        axes.append(place if batched else None)
    (y,), (where,) = batch(lambda *vs: [row.apply(*vs)], xs, axes, SIZE)
    found = to_numpy(to_axis(y, where, 0, SIZE))
    for i in range(SIZE):
        single = [group[i if batched else 0][k] for k, batched in enumerate(mask)]
        wanted = to_numpy(row.apply(*map(from_numpy, single)))
        assert found[i].dtype == wanted.dtype and found[i].shape == wanted.shape
        bits = [
            np.where(np.isnan(a), 0, a).tobytes() if a.dtype.kind in "f" else a.tobytes() for a in (found[i], wanted)
        ]
        assert bits[0] == bits[1], f"{row.name}, batched {mask} along {axis}, example {i}"
        if found.dtype.kind == "f":
            np.testing.assert_array_equal(np.isnan(found[i]), np.isnan(wanted))


F3 = TensorType((3,), float32)


def test_graphs_are_batched_where_their_inputs_are() -> None:
    graph = stage(lambda x, y: [mul(x, x), add(y, y)], [F3, F3]).graph
    batched = batch_graph(graph, (True, False), 4)
    assert batched.mask == (True, False)
    assert list(map(str, batched.graph.output_types)) == ["f32[4, 3]", "f32[3]"]
    assert batch_graph(graph, (True, False), 4, (True, True)).graph.output_types[1].shape == (4, 3)


def test_calls_stay_calls() -> None:
    graph = stage(lambda x: [mul(x, x)], [F3]).graph
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,), axes = batch(lambda v: list(call(graph, v)), [from_numpy(x)], [0], 2)
    assert axes == [0]
    np.testing.assert_array_equal(to_numpy(y), x * x)


def test_values_without_a_batch_axis_stay_unbatched() -> None:
    one = from_numpy(np.ones(3, np.float32))
    (y, z), axes = batch(lambda x: [add(one, one), mul(x, x)], [from_numpy(np.ones((2, 3), np.float32))], [0], 2)
    assert axes == [None, 0] and y.shape == (3,) and z.shape == (2, 3)


def test_a_value_of_an_ended_vmap_is_refused() -> None:
    kept: list[Value] = []
    batch(lambda x: [kept.append(x) or x], [from_numpy(np.ones((2, 3), np.float32))], [0], 2)
    with pytest.raises(TraceError, match="vmap"):
        add(kept[0], kept[0])
