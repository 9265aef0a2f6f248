"""Arguments at the limits of functions: sizes, positions and classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc

F = nc.nn.functional


def transposed(x: np.ndarray, w: np.ndarray, stride: int, more: int, dilation: int, margin: int) -> np.ndarray:
    """conv_transpose2d of one channel by its definition: every pixel adds the filter, then the margins are cut off."""
    n, k = x.shape[0], w.shape[0]
    whole = np.zeros([(n - 1) * stride + dilation * (k - 1) + 1 + more] * 2, np.float32)
    for i, j in np.ndindex(*x.shape):
        for a, b in np.ndindex(*w.shape):
            whole[i * stride + a * dilation, j * stride + b * dilation] += x[i, j] * w[a, b]
    return whole[margin : len(whole) - margin, margin : len(whole) - margin]


CASES = [(1, 1, 2, 0), (1, 1, 3, 1), (2, 2, 3, 0), (1, 2, 3, 1), (2, 3, 4, 2), (1, 2, 3, 3), (2, 5, 6, 1), (2, 1, 1, 1)]


@pytest.mark.parametrize("stride, more, dilation, margin", CASES)
def test_output_padding_between_stride_and_dilation(stride: int, more: int, dilation: int, margin: int) -> None:
    x, w = np.arange(9, dtype=np.float32).reshape(3, 3), np.arange(1, 5, dtype=np.float32).reshape(2, 2)
    given: Any = dict(stride=stride, output_padding=more, dilation=dilation, padding=margin)
    wanted = transposed(x, w, stride, more, dilation, margin)
    found = F.conv_transpose2d(x[None, None], w[None, None], **given)
    np.testing.assert_array_equal(found.numpy()[0, 0], wanted)
    row = F.conv_transpose1d(nc.ones((1, 1, 3)), nc.ones((1, 1, 2)), **given)
    assert row.shape[2] == found.shape[3]
    cube = F.conv_transpose3d(nc.ones((1, 1, 3, 3, 3)), nc.ones((1, 1, 2, 2, 2)), **given)
    flat = F.conv_transpose2d(nc.ones((1, 1, 3, 3)), nc.ones((1, 1, 2, 2)), **given)
    assert cube.shape == (1, 1, *[flat.shape[2]] * 3)


def test_output_padding_has_derivatives() -> None:
    def f(x: Any, w: Any) -> Any:
        y: Any = F.conv_transpose2d(x, w, stride=1, output_padding=2, dilation=3, padding=1)
        return nc.sum(y * nc.arange(64.0).reshape((1, 1, 8, 8))[..., : y.shape[2], : y.shape[3]])

    x, w = nc.random.normal((1, 1, 3, 3), dtype=nc.float64), nc.random.normal((1, 1, 2, 2), dtype=nc.float64)
    g = nc.grad(lambda v: f(v, w))(x).numpy()
    for k in ((0, 0, 1, 2), (0, 0, 2, 2)):
        step = np.zeros((1, 1, 3, 3))
        step[k] = 1e-3
        slope = (f(x + step, w) - f(x - step, w)).item() / 2e-3
        assert abs(slope - g[k]) < 1e-6 * max(1, abs(slope))


def test_unpooling_when_compiled() -> None:
    x = nc.random.normal((2, 3, 7, 6), key=nc.random.key(4))
    for size, stride in ((2, 2), (3, 1), (3, 2)):
        y, places = F.max_pool2d(x, size, stride, return_indices=True)

        def unpool(y: Any, places: Any, size: int = size, stride: int = stride) -> Any:
            return F.max_unpool2d(y, places, size, stride, output_size=(7, 6))

        np.testing.assert_array_equal(nc.jit(unpool)(y, places).numpy(), unpool(y, places).numpy())
    whole = lambda v: F.max_unpool1d(*F.max_pool1d(v, 2, return_indices=True), 2)  # noqa: E731
    np.testing.assert_array_equal(nc.jit(whole)(x[0]).numpy(), whole(x[0]).numpy())


def test_unpooling_to_repeated_positions() -> None:
    """The last value counts, compiled or not, and it alone gets a gradient."""
    y = nc.tensor([[[1.0, -0.0, 3.0, nc.nan]]])
    places = nc.tensor([[[2, 0, 2, 1]]])
    wanted = [-0.0, nc.nan, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    for f in (F.max_unpool1d, nc.jit(lambda y, p: F.max_unpool1d(y, p, 2))):
        found = (f(y, places, 2) if f is F.max_unpool1d else f(y, places)).numpy().ravel()
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    slope = nc.jit(nc.grad(lambda y, p: nc.sum(F.max_unpool1d(y, p, 2) * nc.arange(1.0, 9.0))))
    assert slope(nc.ones((1, 1, 4)), places).tolist() == [[[0.0, 1.0, 3.0, 2.0]]]


def test_unpooling_to_positions_out_of_range() -> None:
    for place in (-1, 4):
        with pytest.raises(nc.ArgumentError, match="indices must be in"):
            F.max_unpool1d([[1.0, 2.0]], [[0, place]], 2)
        with pytest.raises(nc.ArgumentError, match=f"indices must be in .* got {place}"):
            nc.jit(lambda y, p: F.max_unpool1d(y, p, 2))(nc.tensor([[1.0, 2.0]]), nc.tensor([[0, place]]))


@pytest.mark.parametrize("x", [9, [0, 3], [-1]])
def test_one_hot_of_classes_out_of_range(x: Any) -> None:
    with pytest.raises(nc.ArgumentError, match="one_hot: integers must be in"):
        F.one_hot(x, 3)


@pytest.mark.parametrize("compiled", [False, True])
def test_transposed_convolutions_without_a_result_are_refused(compiled: bool) -> None:
    def f(x: Any) -> Any:
        return F.conv_transpose2d(x, nc.ones((3, 4, 3, 3)), stride=2, padding=2)

    for shape in ((1, 3, 1, 1), (1, 3, 1, 3)):
        with pytest.raises(nc.ShapeError, match="conv_transpose2d: the result must not have negative sizes"):
            (nc.jit(f) if compiled else f)(nc.ones(shape))
    assert f(nc.ones((1, 3, 2, 2))).shape == (1, 4, 1, 1)


@pytest.mark.parametrize("mode, name", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
@pytest.mark.parametrize("margins", [(1, -2), (-1, 2), (-2, -1), (3, -1), (3, -3), (0, -5)])
def test_negative_margins_cut_off(mode: str, name: Any, margins: tuple[int, int]) -> None:
    """ "circular" continues with the rest; the other modes cut off a part of their result."""
    x = np.arange(10.0).reshape(2, 5)
    before, after = margins
    wanted = x[:, max(0, -before) : 5 + min(0, after)] if mode == "circular" else x
    if wanted.shape[1] < max(margins):
        pytest.skip("more than is left")
    wanted = np.pad(wanted, ((0, 0), (max(0, before), max(0, after))), mode=name) if wanted.size else wanted
    if mode != "circular":
        wanted = wanted[:, max(0, -before) : wanted.shape[1] + min(0, after)]
    found = F.pad(nc.tensor(x), margins, mode)
    np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(nc.jit(lambda x: F.pad(x, margins, mode))(nc.tensor(x)).numpy(), wanted)


@pytest.mark.parametrize("mode, margins", [("reflect", (-3, 5)), ("replicate", (-4, -2)), ("circular", (-3, 3))])
def test_margins_out_of_range(mode: str, margins: tuple[int, int]) -> None:
    with pytest.raises(nc.ArgumentError, match=f"margins must be at most .* in mode '{mode}' on an axis of"):
        F.pad(nc.arange(5.0), margins, mode)


@pytest.mark.parametrize("p", [-np.inf, -1, 0, 0.5, 1, 3, np.inf])
def test_lengths_of_every_order(p: float) -> None:
    x = np.array([[3.0, -4.0, 0.5], [1.0, 2.0, -8.0]])
    lengths = np.linalg.norm(x, ord=p, axis=1)
    np.testing.assert_allclose(F.normalize(nc.tensor(x), p).numpy(), x / lengths[:, None], rtol=1e-12)
    found = F.pairwise_distance(nc.tensor(x), nc.zeros(3, dtype=nc.float64), p, eps=0.0)
    np.testing.assert_allclose(found.numpy(), lengths, rtol=1e-12)


@pytest.mark.parametrize("dtype", [nc.int8, nc.int32, nc.int64, nc.uint64], ids=str)
def test_positions_of_greatest_integers(dtype: nc.DType) -> None:
    """Also where float64 does not hold them."""
    top = nc.iinfo(dtype).max
    x = nc.tensor([[[top - 1, top, 0, 5, 7, 7]]], dtype=dtype)
    values, places = F.max_pool1d(x, 2, return_indices=True)
    assert values.tolist() == [[[top, 5, 7]]] and places.tolist() == [[[1, 3, 4]]] and values.dtype == dtype
