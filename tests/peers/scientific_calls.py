"""Calls of SciPy and scikit-learn with tensors beside the same calls with arrays of NumPy.

`test_scientific_packages.py` runs this file in a process of its own, because both packages read once, when they are
imported, whether they dispatch to the library of their arguments.  It prints a JSON object: what is wrong with each
call, or an empty text.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import nacre as nc

RANDOM = np.random.default_rng(7)
X, Z = RANDOM.normal(size=(40, 6)), RANDOM.normal(size=(25, 6))
Y = X @ RANDOM.normal(size=6) + 0.1 * RANDOM.normal(size=40)
LABELS, GUESSES = (np.abs(RANDOM.normal(size=(2, 40))) * 1.5).astype(np.int64).clip(0, 2)
SCORES = RANDOM.random((40,))
TRUE = RANDOM.integers(0, 2, 40)
SIGNAL = RANDOM.normal(size=(3, 64))
POSITIVE = RANDOM.random((4, 5)) + 0.1
QUATERNIONS = RANDOM.normal(size=(7, 4))


class Call(NamedTuple):
    """A function by its full name, and its arguments; arrays among them are converted to tensors."""

    function: str
    arguments: tuple[Any, ...]
    settings: Mapping[str, Any] = {}
    tolerance: float = 1e-9  # 1e-6 where a Python number of the function becomes float32, Nacre's default


class Fit(NamedTuple):
    """An estimator by its full name, its settings, and the methods and attributes that are compared.

    `target` is None for estimators that take only the data.
    """

    estimator: str
    settings: Mapping[str, Any]
    target: np.ndarray | None
    methods: tuple[str, ...]
    attributes: tuple[str, ...]


CALLS = {
    "special": [
        Call(f"scipy.special.{name}", (POSITIVE,))
        for name in ("expit", "erf", "gammaln", "digamma", "i0", "ndtri", "entr", "log_ndtr")
    ]
    + [
        Call("scipy.special.xlogy", (POSITIVE, POSITIVE[::-1])),
        Call("scipy.special.rel_entr", (POSITIVE, POSITIVE[::-1])),
        Call("scipy.special.betainc", (POSITIVE, POSITIVE, 0.5 * POSITIVE)),
    ],
    "logsumexp": [
        Call("scipy.special.logsumexp", (X,), {"axis": 1}),
        Call("scipy.special.logsumexp", (X,), {"axis": 0, "b": X, "return_sign": True}),
        Call("scipy.special.softmax", (X,), {"axis": 1}),
        Call("scipy.special.log_softmax", (X,), {"axis": 0}),
    ],
    "summaries": [
        Call("scipy.stats.skew", (X,), {"axis": 0}),
        Call("scipy.stats.kurtosis", (X,), {"axis": 1}),
        Call("scipy.stats.describe", (X,), {"axis": 0}),
        Call("scipy.stats.zscore", (X,), {"axis": 0}),
        Call("scipy.stats.gmean", (POSITIVE,), {"axis": 0}),
        Call("scipy.stats.entropy", (POSITIVE,), {"axis": 1}),
        Call("scipy.stats.quantile", (X, np.asarray(0.3)), {"axis": 0}),
        Call("scipy.stats.trim_mean", (X, 0.1), {"axis": 0}),
    ],
    "tests": [
        Call("scipy.stats.ttest_1samp", (X, 0.1), {"axis": 0}),
        Call("scipy.stats.ttest_ind", (X, Z), {"axis": 0}),
        Call("scipy.stats.pearsonr", (X[:, 0], Y)),
        Call("scipy.stats.normaltest", (X,), {"axis": 0}),
        Call("scipy.stats.jarque_bera", (X,), {"axis": 0}),
        Call("scipy.stats.bartlett", tuple(X.T[:3])),
        Call("scipy.stats.chisquare", (POSITIVE,), {"axis": 0}),
    ],
    "fft": [
        Call("scipy.fft.fft", (SIGNAL,)),
        Call("scipy.fft.rfftn", (SIGNAL,)),
        Call("scipy.fft.irfft", (np.fft.rfft(SIGNAL),)),
        Call("scipy.fft.dct", (SIGNAL,), {"axis": 1}),
        Call("scipy.fft.fftshift", (SIGNAL,)),
    ],
    "signal": [
        Call("scipy.signal.fftconvolve", (SIGNAL[0], SIGNAL[1, :9])),
        Call("scipy.signal.hilbert", (SIGNAL,)),
        Call("scipy.signal.detrend", (SIGNAL,)),
        Call("scipy.signal.convolve2d", (SIGNAL, SIGNAL[:2, :5])),
        Call("scipy.signal.savgol_filter", (SIGNAL, 7, 2)),
        Call("scipy.signal.resample", (SIGNAL[0], 40)),
    ],
    "other packages": [
        Call("scipy.integrate.trapezoid", (SIGNAL,)),
        Call("scipy.integrate.cumulative_simpson", (SIGNAL,), {"dx": 0.1}, 1e-6),
        Call("scipy.cluster.vq.whiten", (X,)),
        Call("scipy.ndimage.gaussian_filter", (SIGNAL, 1.5), {}, 1e-6),
        Call("scipy.cluster.vq.vq", (X, Z)),
        Call("scipy.constants.convert_temperature", (POSITIVE, "Celsius", "Kelvin")),
    ],
    "metrics of classes": [
        Call("sklearn.metrics.accuracy_score", (LABELS, GUESSES), {}, 1e-6),
        Call("sklearn.metrics.balanced_accuracy_score", (LABELS, GUESSES), {}, 1e-6),
        Call("sklearn.metrics.confusion_matrix", (LABELS, GUESSES)),
        Call("sklearn.metrics.f1_score", (LABELS, GUESSES), {"average": "macro"}, 1e-6),
        Call("sklearn.metrics.zero_one_loss", (LABELS, GUESSES), {"normalize": False}),
        Call("sklearn.metrics.roc_curve", (TRUE, SCORES), {"drop_intermediate": False}),
        Call("sklearn.metrics.average_precision_score", (TRUE, SCORES), {}, 1e-6),
    ],
    "metrics of numbers": [
        Call("sklearn.metrics.r2_score", (Y, X[:, 0])),
        Call("sklearn.metrics.mean_squared_error", (X, X[::-1]), {"multioutput": "raw_values"}),
        Call("sklearn.metrics.mean_absolute_error", (Y, X[:, 0])),
        Call("sklearn.metrics.mean_pinball_loss", (Y, X[:, 0])),
        Call("sklearn.metrics.explained_variance_score", (Y, X[:, 0])),
    ],
    "pairs": [
        Call("sklearn.metrics.pairwise.euclidean_distances", (X, Z)),
        Call("sklearn.metrics.pairwise.cosine_similarity", (X, Z)),
        Call("sklearn.metrics.pairwise.rbf_kernel", (X, Z)),
        Call("sklearn.metrics.pairwise.polynomial_kernel", (X, Z)),
        Call("sklearn.metrics.pairwise.paired_euclidean_distances", (X[:25], Z)),
        Call("sklearn.metrics.pairwise_distances", (X, Z), {"n_jobs": 2}),
    ],
}
COMPONENTS = ("components_", "explained_variance_", "singular_values_", "mean_")
FITS = {
    "PCA": [
        Fit("sklearn.decomposition.PCA", {"n_components": 3, "svd_solver": solver, **more}, None,
            ("transform", "fit_transform", "inverse_transform"), COMPONENTS)
        for solver, more in (
            ("full", {}), ("full", {"whiten": True}), ("covariance_eigh", {}),
            ("randomized", {"random_state": 0, "power_iteration_normalizer": "QR"}),
        )
    ],
    "Ridge": [
        Fit("sklearn.linear_model.Ridge", {"solver": "svd", "alpha": 0.3}, Y, ("predict",), ("coef_", "intercept_")),
        Fit("sklearn.linear_model.Ridge", {"solver": "svd", "fit_intercept": False}, np.stack([Y, -Y], 1),
            ("predict",), ("coef_",)),
    ],
    "RidgeCV": [
        Fit("sklearn.linear_model.RidgeCV", {"gcv_mode": mode, "alphas": (0.1, 1.0, 10.0)}, Y, ("predict",),
            ("coef_", "intercept_"))
        for mode in ("eigen", "svd")
    ],
    "LinearDiscriminantAnalysis": [
        Fit("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", {"solver": "svd"}, LABELS,
            ("predict", "predict_proba", "decision_function", "transform"), ("coef_", "means_", "priors_")),
    ],
    "preprocessing": [
        Fit(f"sklearn.preprocessing.{name}", {}, None, ("transform",), attributes)
        for name, attributes in (
            ("StandardScaler", ("mean_", "var_")), ("MinMaxScaler", ("data_min_", "data_range_")),
            ("MaxAbsScaler", ("max_abs_",)), ("Normalizer", ()), ("PolynomialFeatures", ()),
        )
    ],
    "Nystroem": [
        Fit("sklearn.kernel_approximation.Nystroem", {"n_components": 8, "random_state": 0}, None, ("transform",),
            ("components_", "normalization_")),
    ],
    "GaussianNB": [
        Fit("sklearn.naive_bayes.GaussianNB", {}, LABELS, ("predict", "predict_proba"), ("theta_", "var_")),
    ],
}  # fmt: skip
WITHOUT_DISPATCH = "estimators that take tensors as arrays"
ROTATIONS = "rotations"


def named(path: str) -> Any:
    """The object with a full name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def tensors(x: Any) -> Any:
    """Arguments with tensors in place of arrays."""
    return nc.asarray(x) if isinstance(x, np.ndarray) else x


def parts(result: Any) -> Iterator[Any]:
    """The arrays and numbers of a result."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from parts(part)
    elif hasattr(result, "statistic"):
        yield from (result.statistic, result.pvalue)
    else:
        yield result


def require_equal(found: Any, wanted: Any, name: str, tolerance: float = 1e-9) -> None:
    """Raise AssertionError unless the results agree and each array is a tensor."""
    for mine, theirs in zip(parts(found), parts(wanted), strict=True):
        if isinstance(theirs, np.ndarray):
            assert isinstance(mine, nc.Tensor), f"{name}: a tensor is required; got {type(mine).__name__}"
            assert mine.shape == theirs.shape, f"{name}: {mine.shape} for {theirs.shape}"
            assert mine.dtype == theirs.dtype, f"{name}: {mine.dtype} for {theirs.dtype}"
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=1e-11, err_msg=name)


def check_call(call: Call) -> None:
    """Compare a call with tensors."""
    function = named(call.function)
    wanted = function(*call.arguments, **call.settings)
    found = function(*map(tensors, call.arguments), **{key: tensors(x) for key, x in call.settings.items()})
    require_equal(found, wanted, call.function, call.tolerance)


def check_fit(fit: Fit) -> None:
    """Compare an estimator that is fitted with tensors."""
    made = [named(fit.estimator)(**fit.settings) for _ in range(2)]
    for estimator, convert in zip(made, (np.asarray, tensors), strict=True):
        estimator.fit(convert(X), *(() if fit.target is None else (convert(fit.target),)))
    theirs, mine = made
    for name in fit.attributes:
        require_equal(getattr(mine, name), getattr(theirs, name), f"{fit.estimator}.{name}")
    for name in fit.methods:
        given = theirs.transform(Z) if name == "inverse_transform" else X if name == "fit_transform" else Z
        found, wanted = getattr(mine, name)(tensors(given)), getattr(theirs, name)(given)
        require_equal(found, wanted, f"{fit.estimator}.{name}")


def check_rotations() -> None:
    """Compare methods of rotations."""
    rotation = named("scipy.spatial.transform.Rotation")
    mine, theirs = rotation.from_quat(tensors(QUATERNIONS)), rotation.from_quat(QUATERNIONS)
    for method in ("as_matrix", "as_rotvec", "as_mrp", "as_quat", "magnitude"):
        require_equal(getattr(mine, method)(), getattr(theirs, method)(), method)
    require_equal((mine * mine.inv()).magnitude(), (theirs * theirs.inv()).magnitude(), "inv")
    require_equal(mine.apply(tensors(X[:7, :3])), theirs.apply(X[:7, :3]), "apply")


def check_without_dispatch() -> None:
    """Estimators convert tensors to arrays where dispatch is off, as they do with other objects."""
    with named("sklearn.config_context")(array_api_dispatch=False):
        for fit in (FITS["PCA"][0], FITS["RidgeCV"][0], FITS["LinearDiscriminantAnalysis"][0], FITS["GaussianNB"][0]):
            theirs, mine = (named(fit.estimator)(**fit.settings) for _ in range(2))
            theirs.fit(X, fit.target)
            mine.fit(nc.asarray(X), None if fit.target is None else nc.asarray(fit.target))
            for name in fit.methods[:1]:
                found, wanted = getattr(mine, name)(nc.asarray(Z)), getattr(theirs, name)(Z)
                assert isinstance(found, np.ndarray)
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
        found = named("sklearn.metrics.average_precision_score")(nc.asarray(TRUE), nc.asarray(SCORES))
        assert found == named("sklearn.metrics.average_precision_score")(TRUE, SCORES)


def _each(check: Callable[[Any], None], rows: list[Any]) -> Callable[[], None]:
    def run() -> None:
        for row in rows:
            check(row)

    return run


CHECKS: dict[str, Callable[[], None]] = {
    **{name: _each(check_call, calls) for name, calls in CALLS.items()},
    **{name: _each(check_fit, fits) for name, fits in FITS.items()},
    ROTATIONS: check_rotations,
    WITHOUT_DISPATCH: check_without_dispatch,
}


def outcome(check: Callable[[], None]) -> str:
    """What is wrong, or an empty text."""
    try:
        check()
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(CHECKS)
    with named("sklearn.config_context")(array_api_dispatch=True):
        print(json.dumps({name: outcome(CHECKS[name]) for name in chosen}))
