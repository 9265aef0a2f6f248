"""The distributions of `nacre.random`: their edges and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import nacre as nc

R = nc.random


def test_the_generator_draws_other_numbers_each_time() -> None:
    R.seed(4)
    first, second = R.exponential((3,)), R.exponential((3,))
    R.seed(4)
    assert nc.array_equal(R.exponential((3,)), first) and not nc.array_equal(first, second)


def test_locations_and_scales_have_gradients() -> None:
    key = R.key(2)
    for f in (R.laplace, R.logistic, R.gumbel, R.cauchy):
        plain = f((5,), key=key)
        by_loc, by_scale = nc.grad(lambda loc, scale, f=f: f((5,), loc, scale, key=key).sum(), argnums=(0, 1))(
            nc.tensor(1.0), nc.tensor(2.0)
        )
        assert by_loc.item() == 5.0 and abs(by_scale.item() - plain.sum().item()) < 1e-4
    scale = nc.tensor([1.0, 10.0])
    assert (
        nc.grad(lambda s: R.exponential((2,), s, key=key).sum())(scale).tolist()
        == R.exponential((2,), key=key).tolist()
    )


def test_categorical_frequencies() -> None:
    chances = np.array([0.1, 0.2, 0.0, 0.7])
    with np.errstate(divide="ignore"):
        logits = nc.tensor(np.log(chances))
    drawn = R.categorical(logits, (20_000,), key=R.key(6))
    counts = np.bincount(drawn.numpy(), minlength=4)
    wanted = 20_000 * chances
    assert drawn.dtype is nc.int64 and counts[2] == 0
    assert ((counts - wanted)[wanted > 0] ** 2 / wanted[wanted > 0]).sum() < 16
    assert R.categorical(nc.zeros((3, 5)), (2,), key=R.key(0)).shape == (2, 3)
    with pytest.raises(nc.DTypeError, match=r"random\.categorical: logits must be floats"):
        R.categorical(nc.tensor([1, 2]))


def test_permutations() -> None:
    drawn = R.permutation(50, key=R.key(1))
    assert sorted(drawn.tolist()) == list(range(50)) != drawn.tolist()
    rows = nc.reshape(nc.arange(12), (4, 3))
    assert sorted(R.permutation(rows, key=R.key(1)).tolist()) == rows.tolist()
    assert sorted(R.permutation(rows, axis=1, key=R.key(1)).mT.tolist()) == rows.mT.tolist()
    counts = {tuple(R.permutation(3, key=R.key(k)).tolist()) for k in range(60)}
    assert len(counts) == 6 and R.permutation(0).shape == (0,)
    with pytest.raises(nc.ArgumentError, match=r"random\.permutation: x must be at least 0; got -1"):
        R.permutation(-1)


def test_choices() -> None:
    x = nc.tensor([[1.0], [2.0], [3.0]])
    assert set(R.choice(x, (50,), key=R.key(0)).flatten().tolist()) == {1.0, 2.0, 3.0}
    assert set(R.choice(3, (50,), p=nc.tensor([0.0, 2.0, 2.0]), key=R.key(0)).tolist()) == {1, 2}
    for p in (None, nc.tensor([0.1, 0.1, 0.8])):
        assert sorted(R.choice(3, (3,), replace=False, p=p, key=R.key(0)).tolist()) == [0, 1, 2]
    with pytest.raises(nc.ArgumentError, match=r"random\.choice: x must have at least 4 rows; got 3"):
        R.choice(3, (4,), replace=False)
    with pytest.raises(nc.DTypeError, match=r"random\.choice: p must be 3 floats"):
        R.choice(3, (4,), p=nc.tensor([0.5, 0.5]))


def test_multivariate_normal_numbers() -> None:
    mean, covariance = nc.tensor([1.0, -2.0]), nc.tensor([[2.0, 0.6], [0.6, 1.0]])
    drawn = R.multivariate_normal(mean, covariance, (20_000,), key=R.key(9)).numpy()
    assert np.abs(drawn.mean(0) - mean.numpy()).max() < 0.05
    assert np.abs(np.cov(drawn.T) - covariance.numpy()).max() < 0.08
    found = nc.grad(lambda m: R.multivariate_normal(m, covariance, (4,), key=R.key(9)).sum())(mean)
    assert found.tolist() == [4.0, 4.0]
    with pytest.raises(nc.DTypeError, match=r"random\.multivariate_normal: mean must be floats \[N\]"):
        R.multivariate_normal(mean, nc.eye(3))


def test_bounds_are_in_order() -> None:
    with pytest.raises(
        nc.ArgumentError, match=r"random\.truncated_normal: low must be less than high; got 1.0 and 1.0"
    ):
        R.truncated_normal(1.0, 1.0)
    drawn = R.truncated_normal(-30.0, -8.0, (100,), key=R.key(0))
    assert nc.all(drawn <= -8.0) and nc.all(drawn > -10.0)


def test_implicit_gradients_of_the_gamma_distribution() -> None:
    """The derivatives of the quantiles that the numbers are."""
    key = R.key(8)
    for a in (0.4, 2.5, 60.0):
        x = nc.tensor(a, dtype=nc.float64)
        found = nc.jvp(lambda a: R.gamma(a, (20,), key=key), (x,), (nc.ones_like(x),))
        drawn, slopes = (t.numpy() for t in found)
        chances = scipy.stats.gamma(a).cdf(drawn)
        step = 1e-4 * a
        wanted = (scipy.stats.gamma(a + step).ppf(chances) - scipy.stats.gamma(a - step).ppf(chances)) / (2 * step)
        np.testing.assert_allclose(slopes, wanted, 1e-4)
    mean = nc.grad(lambda a: nc.mean(R.gamma(a, (20_000,), key=key)))
    assert abs(mean(nc.tensor(2.5)).item() - 1.0) < 0.03
    with pytest.raises(nc.GradientError, match="no derivative by a twice"):
        nc.grad(mean)(nc.tensor(2.5))


def test_dirichlet_numbers() -> None:
    a = nc.tensor([1.0, 2.0, 5.0])
    drawn = R.dirichlet(a, (20_000,), key=R.key(3))
    assert np.abs(drawn.sum(axis=-1).numpy() - 1.0).max() < 1e-6
    assert np.abs(drawn.mean(axis=0).numpy() - a.numpy() / 8).max() < 0.01
    slope = nc.grad(lambda a: nc.mean(R.dirichlet(a, (20_000,), key=R.key(3))[:, 0]))(a).numpy()
    assert np.abs(slope - np.array([7, -1, -1]) / 64).max() < 0.01


def test_parameters_are_positive() -> None:
    with pytest.raises(nc.ArgumentError, match=r"random\.gamma: parameters must be positive; got 0.0"):
        R.gamma(0.0)
    assert np.isnan(nc.jit(lambda a: R.gamma(a, key=R.key(0)))(nc.tensor([-1.0, 2.0])).numpy()).tolist() == [
        True,
        False,
    ]
    with pytest.raises(nc.DTypeError, match=r"random\.dirichlet: a must have an axis"):
        R.dirichlet(1.0)


@pytest.mark.parametrize("dtype", [nc.float16, nc.bfloat16, nc.float32, nc.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["normal", "exponential", "laplace", "logistic", "cauchy", "gumbel", "uniform"])
def test_many_numbers_are_those_of_compiled_code_and_of_few(name: str, dtype: nc.DType) -> None:
    draw, key, shape = getattr(R, name), R.key(3), (641, 3, 137)
    many = draw(shape, dtype=dtype, key=key)
    compiled = nc.jit(lambda key: draw(shape, dtype=dtype, key=key))(key)
    assert many.numpy().tobytes() == compiled.numpy().tobytes()
    if name == "uniform":
        assert many.reshape(-1)[:77].numpy().tobytes() == draw((7, 11), dtype=dtype, key=key).numpy().tobytes()
    if name != "uniform":
        examples = nc.vmap(lambda key: draw(shape, dtype=dtype, key=key))(nc.stack([key, R.key(4)]))
        assert examples[0].numpy().tobytes() == many.numpy().tobytes()
