"""Parameters of distributions: their edges, dtypes and shapes, refusals, and gradients by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import nacre as nc
from nacre.ops.special.drawn import drawn

R = nc.random
KEY = R.key(11)


def test_counts_at_the_edges() -> None:
    assert R.poisson(0.0, (50,), key=KEY).tolist() == [0] * 50
    assert R.poisson(-0.0, key=KEY).item() == 0 and R.poisson(1e-300, (50,), key=KEY).sum().item() == 0
    for p, wanted in ((0.0, 0), (1.0, 7)):
        assert R.binomial(7, p, (50,), key=KEY).tolist() == [wanted] * 50
        assert R.binomial(10**9, p, key=KEY).item() == (10**9 if p else 0)
    assert R.binomial(0, 0.5, (50,), key=KEY).tolist() == [0] * 50
    assert R.geometric(1.0, (50,), key=KEY).tolist() == [1] * 50
    assert R.poisson(nc.zeros((0, 3)), key=KEY).shape == (0, 3)
    assert R.binomial(2, 0.5, (), key=KEY).shape == ()


def test_counts_of_classes() -> None:
    """All results of a few trials, with the probabilities of the multinomial distribution."""
    p = np.array([0.2, 0.5, 0.0, 0.3])
    drawn = R.multinomial(3, nc.tensor(2 * p), (20_000,), key=KEY).numpy()
    results, found = np.unique(drawn, axis=0, return_counts=True)
    wanted = scipy.stats.multinomial(3, p).pmf(results) * len(drawn)
    assert len(results) == 10 and scipy.stats.chisquare(found, wanted).pvalue > 1e-3


def test_counts_of_classes_at_the_edges() -> None:
    assert R.multinomial(4, nc.tensor([3.0]), (2,), key=KEY).tolist() == [[4], [4]]
    assert R.multinomial(0, nc.tensor([3.0, 1.0]), key=KEY).tolist() == [0, 0]
    many = R.multinomial(10**9, nc.tensor([[1.0, 1.0, 2.0], [0.0, 1.0, 0.0]]), key=KEY).numpy()
    assert many[1].tolist() == [0, 10**9, 0] and many[0].sum() == 10**9
    assert R.multinomial(nc.tensor([2, 5]), nc.ones((3, 1, 7)), key=KEY).sum(axis=-1).tolist() == [[2, 5]] * 3
    assert R.multinomial(2, nc.ones((0, 3)), key=KEY).shape == (0, 3)


@pytest.mark.parametrize("rate", [1e9, 1e12, 2.0**53, 2.0**62])
def test_huge_rates(rate: float) -> None:
    """The deviations, in units of the root of the rate, follow the normal distribution."""
    drawn = R.poisson(rate, (2000,), key=KEY).numpy()
    assert (drawn >= 0).all() and drawn.dtype == np.int64
    scaled = (drawn.astype(np.float64) - rate) / math.sqrt(rate)
    assert scipy.stats.kstest(scaled, "norm").pvalue > 1e-3


def test_as_many_trials_as_float64_counts() -> None:
    n, p = 2**53, 0.25
    drawn = R.binomial(n, p, (2000,), key=KEY).numpy().astype(np.float64)
    assert scipy.stats.kstest((drawn - n * p) / math.sqrt(n * p * (1 - p)), "norm").pvalue > 1e-3


@pytest.mark.parametrize("dtype", [nc.int8, nc.int16, nc.int32, nc.int64, nc.float16, nc.bfloat16, nc.float32])
def test_dtypes_of_counts(dtype: nc.DType) -> None:
    for f in (lambda **k: R.poisson(20.0, (40,), **k), lambda **k: R.binomial(50, 0.7, (40,), **k)):
        found = f(dtype=dtype, key=KEY)
        assert found.dtype is dtype and found.tolist() == f(key=KEY).tolist()


def test_dtypes_of_parameters() -> None:
    """A Python number has all its digits, and a tensor those of its dtype; the bits are those of float64."""
    for dtype in (nc.float16, nc.bfloat16, nc.float32, nc.float64):
        rate = nc.tensor(20.3, dtype=dtype)
        assert nc.array_equal(R.poisson(rate, (90,), key=KEY), R.poisson(rate.item(), (90,), key=KEY))
        assert R.von_mises(nc.tensor(0.5, dtype=dtype), 2.0, (3,), key=KEY).dtype is dtype
    for dtype in (nc.int8, nc.uint8, nc.int32, nc.uint64):
        assert nc.array_equal(R.binomial(nc.tensor(40, dtype=dtype), 0.4, key=KEY), R.binomial(40, 0.4, key=KEY))
    wide = nc.tensor(0.7, dtype=nc.float64)
    assert nc.array_equal(
        R.beta(nc.tensor(2.0, dtype=nc.float64), 0.7, (9,), key=KEY), R.beta(2.0 + 0 * wide, wide, (9,), key=KEY)
    )


def test_shapes_broadcast() -> None:
    n, p = nc.tensor([[5], [50]]), nc.tensor([0.2, 0.5, 0.9])
    found = R.binomial(n, p, key=KEY)
    assert found.shape == (2, 3) and found.tolist() == R.binomial(n, p, (2, 3), key=KEY).tolist()
    assert R.binomial(n, p, (4, 2, 3), key=KEY).shape == (4, 2, 3)
    assert R.von_mises(nc.zeros((2, 1)), nc.ones(3), key=KEY).shape == (2, 3)
    assert R.poisson([1.0, 100.0], (7, 2), key=KEY).shape == (7, 2)
    assert R.normal((2, 3), nc.zeros((2, 1)), nc.ones(3), key=KEY).shape == (2, 3)
    for f in (R.poisson, R.gamma, R.geometric):
        with pytest.raises(nc.ShapeError, match=r"the parameters must broadcast to the shape; got \[3\] and \[2\]"):
            f(nc.full((3,), 0.5), (2,))


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "rate": (lambda: R.poisson(-1.0), nc.ArgumentError, r"random\.poisson: rates must be from 0 to 2\^62; got -1.0"),
    "NaN": (lambda: R.poisson([1.0, math.nan]), nc.ArgumentError, r"random\.poisson: rates must .*; got nan"),
    "infinite": (lambda: R.poisson(math.inf), nc.ArgumentError, r"random\.poisson: rates must .*; got inf"),
    "integer rate": (
        lambda: R.poisson(nc.tensor([3])),
        nc.DTypeError,
        r"random\.poisson: rate must be floats; got i64",
    ),
    "unsigned": (lambda: R.poisson(1.0, dtype="uint8"), nc.DTypeError, r"dtype must be a signed integer or float"),
    "n": (lambda: R.binomial(-1, 0.5), nc.ArgumentError, r"random\.binomial: n must be from 0 to 2\^53; got -1"),
    "real n": (lambda: R.binomial(2.5, 0.5), nc.DTypeError, r"random\.binomial: n must be integers; got f32"),
    "p": (lambda: R.binomial(5, 1.5), nc.ArgumentError, r"random\.binomial: p must be in \[0, 1\]; got 1.5"),
    "p is NaN": (lambda: R.binomial(5, math.nan), nc.ArgumentError, r"p must be in \[0, 1\]; got nan"),
    "no class": (lambda: R.multinomial(5, 1.0), nc.DTypeError, r"random\.multinomial: p must have an axis of classes"),
    "less than none": (lambda: R.multinomial(5, [1.0, -1.0]), nc.ArgumentError, r"p must be finite and not neg.*-1.0"),
    "only zeros": (lambda: R.multinomial(5, [0.0, 0.0]), nc.ArgumentError, r"each vector of p must have a positive"),
    "no success": (lambda: R.geometric(0.0), nc.ArgumentError, r"random\.geometric: p must be in \(0, 1\]; got 0.0"),
    "concentration": (lambda: R.von_mises(0.0, -1.0), nc.ArgumentError, r"the concentration must be at least 0"),
    "no end": (lambda: R.von_mises(0.0, math.inf), nc.ArgumentError, r"at least 0 and finite; got inf"),
    "std": (lambda: R.normal((3,), 0.0, -1.0), nc.ArgumentError, r"random\.normal: std must be at least 0; got -1.0"),
    "scale": (lambda: R.laplace((3,), 0.0, [1.0, -2.0, 1.0]), nc.ArgumentError, r"random\.laplace: scale must .*-2.0"),
    "bounds": (lambda: R.uniform((2,), [0.0, 2.0], 1.0), nc.ArgumentError, r"random\.uniform: low must be less than"),
    "far out": (lambda: R.truncated_normal(40.0, 41.0), nc.ArgumentError, r"must be within 37 of 0; got 40.0 and 41.0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    f, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        f()


def test_impossible_parameters_of_compiled_code() -> None:
    """As integers they give −1, as floats NaN, and they do not change the numbers beside them."""
    rates = nc.tensor([4.0, -1.0, math.nan, math.inf, 40.0])
    counts = nc.jit(lambda r: R.poisson(r, key=KEY))(rates).tolist()
    assert counts[1:4] == [-1] * 3 and min(counts[0], counts[4]) > 0
    floats = nc.jit(lambda r: R.poisson(r, dtype=nc.float32, key=KEY))(rates).numpy()
    assert np.isnan(floats).tolist() == [False, True, True, True, False] and floats[4] == counts[4]
    pairs = nc.jit(lambda n, p: R.binomial(n, p, key=KEY))(
        nc.tensor([5, -1, 5, 5]), nc.tensor([0.5, 0.5, 1.5, math.nan])
    )
    assert pairs.tolist()[1:] == [-1] * 3 and 0 <= pairs[0].item() <= 5
    assert nc.jit(lambda p: R.geometric(p, key=KEY))(nc.tensor([0.0, 2.0])).tolist() == [-1, -1]
    vectors = nc.tensor([[0.0, 0.0], [1.0, -1.0], [1.0, math.inf], [0.0, 2.0]])
    assert nc.jit(lambda p: R.multinomial(5, p, key=KEY))(vectors).tolist() == [[-1, -1]] * 3 + [[0, 5]]
    angles = nc.jit(lambda k: R.von_mises(0.0, k, key=KEY))(nc.tensor([1.0, -1.0, math.nan, 3e38, 1e38]))
    assert np.isnan(angles.numpy()).tolist() == [False, True, True, True, False]


# ---- gradients


@pytest.mark.parametrize("name", ["poisson", "binomial", "multinomial", "geometric"])
def test_counts_have_no_derivative(name: str) -> None:
    f = {
        "poisson": lambda p, **k: R.poisson(p, key=KEY, **k),
        "binomial": lambda p, **k: R.binomial(9, p, key=KEY, **k),
        "multinomial": lambda p, **k: R.multinomial(9, p, key=KEY, **k),
        "geometric": lambda p, **k: R.geometric(p, key=KEY, **k),
    }[name]
    p = nc.tensor([0.3, 0.6])
    for derivative in (lambda g: nc.grad(g)(p), lambda g: nc.jvp(g, (p,), (p,)), lambda g: nc.jit(nc.grad(g))(p)):
        with pytest.raises(nc.GradientError, match=rf"random\.{name}: the derivative of counts .* does not exist"):
            derivative(lambda q: f(q, dtype=nc.float32).sum())
    assert nc.grad(lambda q: f(q.detach(), dtype=nc.float32).sum() + q.sum())(p).tolist() == [1.0, 1.0]
    assert f(p.requires_grad_()).requires_grad is False


def test_gradients_of_normal_and_uniform_numbers() -> None:
    mean, std = nc.tensor([1.0, 2.0]), nc.tensor([0.5, 3.0])
    plain = R.normal((4, 2), key=KEY)
    by_mean, by_std = nc.grad(lambda m, s: R.normal((4, 2), m, s, key=KEY).sum(), argnums=(0, 1))(mean, std)
    assert by_mean.tolist() == [4.0, 4.0] and nc.allclose(by_std, plain.sum(axis=0), atol=1e-5)
    u = R.uniform((4, 2), key=KEY)
    by_low, by_high = nc.grad(lambda a, b: R.uniform((4, 2), a, b, key=KEY).sum(), argnums=(0, 1))(mean, mean + std)
    assert nc.allclose(by_high, u.sum(axis=0), atol=1e-5) and nc.allclose(by_low, (1 - u).sum(axis=0), atol=1e-5)


def test_bounds_of_uniform_numbers_that_are_tensors() -> None:
    low, high = nc.tensor(1.0), nc.tensor(1.0 + 2.0**-22)  # few numbers, to one of which half of the draws round up
    drawn = R.uniform((1000,), low, high, key=KEY)
    assert nc.all(drawn >= low) and nc.all(drawn < high)
    assert nc.array_equal(R.uniform((9,), nc.tensor(0.0), nc.tensor(1.0), key=KEY), R.uniform((9,), key=KEY))


@pytest.mark.parametrize("dtype", [nc.float32, nc.float64], ids=str)
def test_gradients_of_angles(dtype: nc.DType) -> None:
    """The derivatives of the quantiles that the angles are, and 1 by the location."""
    for kappa in (0.01, 0.7, 4.0, 90.0, 2e3):
        x = nc.tensor(kappa, dtype=dtype)
        drawn, slopes = nc.jvp(
            lambda k, d=dtype: R.von_mises(nc.tensor(0.0, dtype=d), k, (20,), key=KEY), (x,), (nc.ones_like(x),)
        )
        angles = drawn.numpy().astype(np.float64)
        step = 1e-4 * kappa
        above, below = (scipy.stats.vonmises(kappa + s).cdf(angles) for s in (step, -step))
        wanted = -(above - below) / (2 * step) / scipy.stats.vonmises(kappa).pdf(angles)
        np.testing.assert_allclose(slopes.numpy(), wanted, 2e-4, 1e-4 * np.abs(wanted).max())
    assert nc.grad(lambda m: R.von_mises(m, 2.0, (5,), key=KEY).sum())(nc.tensor(3.0)).item() == 5.0
    flat = nc.jvp(lambda k: R.von_mises(0.0, k, (5,), key=KEY), (nc.tensor(0.0),), (nc.tensor(1.0),))
    assert nc.allclose(flat[1], -nc.sin(flat[0]), atol=1e-6)


def test_second_derivatives_of_angles() -> None:
    """Those of the quantiles, by differences of first derivatives at the moved angles."""
    angles = nc.tensor([-1.2, 0.4, 0.3, 2.9], dtype=nc.float64)
    kappa = nc.tensor([0.5, 3.0, 20.0, 1.5], dtype=nc.float64)

    def slope(x: nc.Tensor, k: nc.Tensor) -> nc.Tensor:
        return nc.jvp(lambda k: drawn("von_mises", x, k), (k,), (nc.ones_like(k),))[1]

    found = nc.jvp(lambda k: slope(angles, k), (kappa,), (nc.ones_like(kappa),))[1]
    step = 1e-5
    moved = [angles + s * slope(angles, kappa) + 0.5 * step**2 * found for s in (step, -step)]
    wanted = (slope(moved[0], kappa + step) - slope(moved[1], kappa - step)) / (2 * step)
    assert nc.allclose(found, wanted, rtol=1e-6)
    reverse = nc.hessian(lambda k: drawn("von_mises", angles, k).sum())(kappa)
    assert nc.allclose(nc.linalg.diagonal(reverse), found, rtol=1e-9)


def test_angles_are_within_a_turn() -> None:
    drawn = R.von_mises(nc.tensor([0.0, 3.0, -3.1, 100.0]), 1.0, (2000, 4), key=KEY).numpy()
    assert np.abs(drawn).max() <= np.float32(np.pi)
    centre = np.angle(np.exp(1j * drawn.astype(np.float64)).mean(0))
    assert np.abs(np.angle(np.exp(1j * (centre - [0.0, 3.0, -3.1, 100.0])))).max() < 0.1


def test_shares_of_numbers_that_are_too_small_are_probabilities() -> None:
    for a in (1e-3, 1e-30):
        found = nc.random.dirichlet(nc.full((4,), a), (500,), key=nc.random.key(5)).numpy()
        np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-6)
        np.testing.assert_allclose(found.mean(0), 0.25, atol=0.08)
        pairs = nc.random.beta(a, a, (500,), key=nc.random.key(6))
        assert 0.4 < float(nc.mean(pairs)) < 0.6
        assert (
            nc.grad(lambda a: nc.sum(nc.random.beta(a, a, (9,), key=nc.random.key(6))))(nc.tensor(1e-30)).item() == 0.0
        )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nc.random.choice(3, (2,), p=[0.0, 0.0, 0.0]), "some element of p must be positive; got 3 zeros"),
        (lambda: nc.random.choice(3, (2,), p=[-0.5, 0.5, 1.0]), "p must be finite and not negative; got -0.5"),
        (lambda: nc.random.choice(2, (2,), p=[float("nan"), 1.0]), "p must be finite and not negative; got nan"),
        (lambda: nc.random.truncated_normal(nc.tensor([0.0, 1.0]), 2.0), "low must be"),
    ],
)  # fmt: skip
def test_impossible_probabilities_and_bounds_are_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(nc.Error) as found:
        call()
    assert words in str(found.value), found.value


def test_a_generator_gives_keys_and_says_so() -> None:
    with pytest.raises(AttributeError, match=r"nacre.random.normal\(shape, key=generator.next_key\(\)\)"):
        _ = R.Generator(0).normal  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"nacre.random.randint\(low, high, shape, key="):
        _ = R.Generator(0).integers  # type: ignore[attr-defined]


def test_bounds_of_truncated_numbers_far_out_stand_for_none() -> None:
    drawn = R.truncated_normal(2.0, 37.0, (2000,), dtype=nc.float64, key=KEY).numpy()
    assert drawn.min() >= 2.0
    assert scipy.stats.kstest(drawn, scipy.stats.truncnorm(2.0, np.inf).cdf).pvalue > 1e-3
