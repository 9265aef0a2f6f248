"""The functions of `nacre.special`: values, dtypes, derivatives, batches and compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import nacre as nc
from nacre import special

POSITIVE, UNIT = [0.3, 1.0, 2.5, 9.0, 40.0], [0.05, 0.3, 0.5, 0.7, 0.95]
ONE = {
    "gammaln": POSITIVE, "gamma": POSITIVE, "digamma": POSITIVE, "erfinv": UNIT, "erfcinv": UNIT, "erfcx": POSITIVE,
    "ndtr": UNIT, "log_ndtr": UNIT, "ndtri": UNIT, "i0": UNIT, "i0e": POSITIVE, "i1": UNIT, "i1e": POSITIVE,
    "entr": POSITIVE, "logit": UNIT, "expit": POSITIVE,
}  # fmt: skip
TWO = ("zeta", "betaln", "beta", "xlogy", "xlog1py", "rel_entr", "kl_div", "gammainc", "gammaincc")
A = [2.0, 1.5, 7.0, 3.0]
B = [1.0, 3.0, 0.5, 2.0]
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    **{name: (getattr(special, name), getattr(sp, name), (x,)) for name, x in ONE.items()},
    **{name: (getattr(special, name), getattr(sp, name), (A, B)) for name in TWO},
    "betainc": (special.betainc, sp.betainc, (A, B, [0.1, 0.4, 0.6, 0.9])),
    "polygamma": (lambda x: special.polygamma(2, x), lambda x: sp.polygamma(2, x), (POSITIVE,)),
    "multigammaln": (lambda x: special.multigammaln(x, 3), lambda x: sp.multigammaln(x, 3), ([1.5, 4.0, 30.0],)),
    "sinc": (special.sinc, np.sinc, ([-2.5, 0.0, 0.01, 0.3, 4.2],)),
}
DIFFERENTIABLE = {"zeta": (1,), "betainc": (2,), "gammainc": (1,), "gammaincc": (1,)}  # to second order


@pytest.mark.parametrize("name", CALLS)
def test_values_in_every_dtype(name: str) -> None:
    f, reference, args = CALLS[name]
    for dtype, digits in ((nc.float64, 1e-12), (nc.float32, 1e-6), (nc.float16, 1e-3), (nc.bfloat16, 8e-3)):
        operands = [nc.tensor(a, dtype=dtype) for a in args]
        found = f(*operands)
        with np.errstate(all="ignore"):
            wanted = np.asarray(reference(*(x.astype(nc.float64).numpy() for x in operands))).astype(dtype.numpy)
        assert found.dtype is dtype
        np.testing.assert_allclose(found.astype(nc.float64).numpy(), wanted.astype(np.float64), digits, 1e-7)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_code_and_batches_give_the_same_bits(name: str) -> None:
    f, _, args = CALLS[name]
    operands = [nc.tensor(a) for a in args]
    plain = f(*operands).numpy().tobytes()
    assert nc.jit(f)(*operands).numpy().tobytes() == plain
    assert nc.vmap(f)(*operands).numpy().tobytes() == plain
    assert nc.concat([f(*(x[k : k + 1] for x in operands)) for k in range(len(args[0]))]).numpy().tobytes() == plain


@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_second_order(name: str) -> None:
    f, _, args = CALLS[name]
    operands = [nc.tensor(a, dtype=nc.float64)[:3] for a in args]
    if name == "gamma":
        operands = [nc.tensor([0.6, 1.7, 3.2], dtype=nc.float64)]
    active = DIFFERENTIABLE.get(name, tuple(range(len(args))))

    def of_active(*xs: nc.Tensor) -> nc.Tensor:
        whole = list(operands)
        for k, x in zip(active, xs, strict=True):
            whole[k] = x
        return f(*whole)

    nc.check_grads(of_active, [operands[k] for k in active], order=2)


def test_the_chain_of_derivatives_of_the_gamma_function() -> None:
    x = nc.tensor(2.3, dtype=nc.float64)
    f: Any = special.lgamma
    for order in range(4):
        f = nc.grad(f)
        assert abs(f(x).item() - float(sp.polygamma(order, 2.3))) < 1e-12


def test_unknown_derivatives_are_refused() -> None:
    a, x = nc.tensor(2.0), nc.tensor(1.5)
    with pytest.raises(nc.GradientError, match=r"special.zeta: no derivative by s"):
        nc.grad(lambda s: special.zeta(s, x))(a)
    with pytest.raises(nc.GradientError, match=r"special.betainc: no derivative by a and b"):
        nc.grad(lambda a: special.betainc(a, x, nc.tensor(0.5)))(a)
    with pytest.raises(nc.GradientError, match=r"special.gammainc: no derivative by a twice"):
        nc.grad(nc.grad(lambda a: special.gammainc(a, x)))(a)


def test_the_derivative_of_the_incomplete_gamma_function_by_its_parameter() -> None:
    for a, x in ((0.3, 0.2), (3.0, 2.0), (3.0, 9.0), (50.0, 55.0), (50.0, 20.0)):
        found = nc.grad(special.gammainc)(nc.tensor(a, dtype=nc.float64), nc.tensor(x, dtype=nc.float64)).item()
        step = 1e-4 * a
        wanted = (sp.gammainc(a + step, x) - sp.gammainc(a - step, x)) / (2 * step)
        assert abs(found - wanted) < 1e-6 * abs(wanted) + 1e-12


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(nc.ArgumentError, match=r"special\.polygamma: n must be from 0 to 170; got -1"):
        special.polygamma(-1, 1.0)
    with pytest.raises(nc.ArgumentError, match=r"special\.multigammaln: d must be from 1 to 1048576; got 0"):
        special.multigammaln(1.0, 0)
    with pytest.raises(nc.DTypeError, match=r"special\.gammaln"):
        special.gammaln(nc.tensor([1, 2]))


def test_other_names() -> None:
    assert special.lgamma is special.gammaln and special.psi is special.digamma
    assert special.expit(0.0).item() == 0.5
