"""Complex numbers in the array library: dtypes, parts, views, derivatives, errors, files."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from api.ascent import ascent
from nacre import deploy, nn, optim
from nacre.ir.parse import parse
from ops.samples import Array, generator

pytestmark = pytest.mark.sampled(3)

COMPLEX = (nc.complex64, nc.complex128)


def numbers(*shape: int, seed: int = 0) -> Array:
    """Random complex numbers."""
    rng = generator(seed)
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))


# ---- dtypes and promotion


def test_python_numbers_and_dtypes() -> None:
    assert nc.tensor([1, 2j]).dtype is nc.complex64 and nc.zeros(2, dtype=complex).dtype is nc.complex64
    assert nc.tensor(1 + 2j).item() == complex(nc.tensor(1 + 2j)) == 1 + 2j
    assert nc.result_type(nc.float64, nc.complex64) is nc.complex128
    assert nc.result_type(nc.bfloat16, nc.complex64) is nc.complex64
    assert (nc.ones(2, dtype=nc.float64) + 1j).dtype is nc.complex128
    assert (nc.tensor([1, 2]) * 1j).dtype is nc.complex64
    assert nc.isdtype(nc.complex64, "complex floating") and not nc.can_cast(nc.complex64, nc.float64)
    assert nc.finfo(nc.complex128).bits == 64


@pytest.mark.parametrize("dtype", COMPLEX)
def test_conversions(dtype: Any) -> None:
    z = nc.asarray(numbers(3).astype(dtype.numpy))
    assert all(z.astype(d).dtype is d for d in COMPLEX)
    assert nc.tensor([1.5, 2.0]).astype(dtype).tolist() == [1.5, 2]
    assert nc.tensor([0j, 1j], dtype=dtype).astype(nc.bool).tolist() == [False, True]


@pytest.mark.parametrize(("wrong", "words"), [
    (lambda z: z.astype(nc.float32), "take its real part"),
    (lambda z: float(z[0]), "write x.real"),
    (lambda z: z < z, "less: operands must have a real dtype.*take its abs, or a part"),
    (lambda z: nc.max(z), "take (the|its) abs, or a part"),
    (lambda z: nc.sort(z), "take (the|its) abs, or a part"),
    (lambda z: nc.maximum(z, z), "take (the|its) abs, or a part"),
    (lambda z: nc.floor(z), "take (the|its) abs, or a part"),
    (lambda z: z // 2, "take (the|its) abs, or a part"),
    (lambda z: z + nc.tensor([1, 2]), "must be of one kind"),
    (lambda z: nc.tensor([1j], dtype=nc.int64), "use its real part"),
    (lambda z: nc.arange(3j), "must be a real number"),
    (lambda z: nc.complex(nc.tensor([1, 2]), nc.tensor([1, 2])), "a floating-point dtype"),
    (lambda z: nc.view_as_real(nc.real(z)), "a complex dtype"),
    (lambda z: nc.view_as_complex(nc.ones((2, 3))), "must have size 2"),
    (lambda z: nc.grad(nc.sum)(z), "take its real part, or its abs"),
    (lambda z: nc.jacfwd(lambda z: z * z)(z), "write jvp"),
    (lambda z: nc.jacrev(lambda z: z * z)(z), "write vjp"),
    (lambda z: nc.hessian(lambda z: nc.sum(nc.abs(z)))(z), "write jvp"),
])  # fmt: skip
def test_what_complex_numbers_do_not_have(wrong: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(nc.Error, match=words):
        wrong(nc.asarray(numbers(2)))


# ---- parts and views


def test_parts() -> None:
    z = numbers(4, 3)
    x = nc.asarray(z)
    for f, g in ((nc.real, np.real), (nc.imag, np.imag), (nc.conj, np.conj)):
        np.testing.assert_array_equal(f(x).numpy(), g(z))
    np.testing.assert_allclose(nc.angle(x).numpy(), np.angle(z), 1e-15)
    np.testing.assert_array_equal(nc.complex(nc.real(x), nc.imag(x)).numpy(), z)
    np.testing.assert_allclose(nc.polar(nc.abs(x), nc.angle(x)).numpy(), z, 1e-14)
    np.testing.assert_array_equal(x.mH.numpy(), z.conj().T)
    assert nc.real(nc.tensor([1, 2])).tolist() == [1, 2] and nc.imag(nc.tensor([1.0])).tolist() == [0]


def test_views_as_pairs() -> None:
    for n in (3, 5, 4, 6, 9):  # views with equal strides and different beginnings
        whole = nc.asarray(numbers(n, 6))
        for part in (whole[::-1], whole[1:, ::2].T, whole[2:], whole[:, 1], whole[n - 2]):
            seen = nc.view_as_real(part)
            np.testing.assert_array_equal(seen.numpy(), np.stack((part.numpy().real, part.numpy().imag), -1))
            np.testing.assert_array_equal(nc.view_as_complex(seen).numpy(), part.numpy())
            row = nc.view_as_real(whole)[n - 2]
            np.testing.assert_array_equal(nc.view_as_complex(row).numpy(), whole.numpy()[n - 2])
    apart = nc.asarray(generator().normal(size=(2, 5))).T  # whose parts are not adjacent
    np.testing.assert_array_equal(nc.view_as_complex(apart).numpy(), apart.numpy()[:, 0] + 1j * apart.numpy()[:, 1])


def test_assignment_and_indices() -> None:
    x, z = nc.zeros(5, dtype=nc.complex128), np.zeros(5, complex)
    for at, value in ((1, 3), (slice(2, 4), 1j), (4, 2.5 - 1j)):
        x[at], z[at] = value, value
    np.testing.assert_array_equal(x.numpy(), z)
    held = numbers(4, 4)
    m, mask = nc.asarray(held), np.abs(held) > 1
    np.testing.assert_array_equal(m[nc.asarray(mask)].numpy(), held[mask])
    np.testing.assert_array_equal(nc.take(m, nc.tensor([2, 0]), axis=1).numpy(), held[:, [2, 0]])


# ---- derivatives

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mixed": lambda z: nc.sum(nc.real(z * z * nc.exp(z) / (z + 2)) + nc.abs(z) * nc.imag(z)),
    "squared length": lambda z: nc.sum(nc.abs(z) ** 2),
    "polar": lambda z: nc.sum(nc.real(nc.polar(nc.abs(z) ** 2, 3 * nc.angle(z)))),
    "direction": lambda z: nc.sum(nc.real(nc.sign(z)) + nc.angle(z)),
    "product": lambda z: nc.abs(nc.prod(z)),
    "running product": lambda z: nc.imag(nc.sum(nc.cumulative_prod(z.reshape((-1,))))),
    "matrix": lambda z: nc.sum(nc.abs(z @ z.mH + z[0, 0]) ** 2),
    "views": lambda z: nc.sum(nc.view_as_real(z)[..., 1] * nc.real(z)),
    "branch": lambda z: nc.sum(nc.abs(nc.where(nc.real(z) > 0, nc.sqrt(z), nc.log(z)))),
    "indices": lambda z: nc.sum(nc.real(z[nc.tensor([0, 0, 1])] * nc.conj(z[1]))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_steepest_ascent(name: str) -> None:
    f, z = FUNCTIONS[name], numbers(2, 3)
    wanted = ascent(f, z)
    found = nc.grad(f)(nc.asarray(z)).numpy()
    np.testing.assert_allclose(found, wanted, 1e-6, 1e-7)
    assert nc.jit(nc.grad(f))(nc.asarray(z)).numpy().tobytes() == found.tobytes()
    leaf = nc.asarray(z).requires_grad_()
    f(leaf).backward()
    assert leaf.grad is not None and leaf.grad.numpy().tobytes() == found.tobytes()
    tangent = numbers(2, 3, seed=1)
    _, moved = nc.jvp(f, (nc.asarray(z),), (nc.asarray(tangent),))
    assert float(moved) == pytest.approx(np.sum(found.conj() * tangent).real, rel=1e-12, abs=1e-12)


def test_pullbacks_conjugate_holomorphic_derivatives() -> None:
    z, cotangent = numbers(3), numbers(3, seed=1)
    _, pullback = nc.vjp(lambda z: z * z, nc.asarray(z))
    np.testing.assert_allclose(pullback(nc.asarray(cotangent))[0].numpy(), np.conj(2 * z) * cotangent, 1e-15)
    x = nc.asarray(z).requires_grad_()
    y = x * x
    y.retain_grad()
    nc.sum(nc.real(y) * 2).backward()
    assert y.grad is not None and y.grad.tolist() == [2, 2, 2]


def test_second_derivatives() -> None:
    z = numbers(3)
    f = FUNCTIONS["squared length"]
    along = nc.asarray(numbers(3, seed=1))
    _, found = nc.jvp(nc.grad(f), (nc.asarray(z),), (along,))
    np.testing.assert_allclose(found.numpy(), 2 * along.numpy(), 1e-14)


# ---- transformations and compiled code


def test_batches_loops_and_branches() -> None:
    z = nc.asarray(numbers(3, 4))
    f = nc.vmap(lambda a, b: a * b + nc.abs(a))
    np.testing.assert_allclose(f(z, z).numpy(), z.numpy() ** 2 + np.abs(z.numpy()), 1e-14)
    last, _ = nc.scan(lambda c, x: (c * x, None), nc.ones(4, dtype=nc.complex128), z)
    np.testing.assert_allclose(last.numpy(), np.prod(z.numpy(), 0), 1e-14)
    assert nc.cond(nc.tensor(True), lambda q: q * 2, lambda q: q, z).numpy().tobytes() == (z * 2).numpy().tobytes()
    limit = nc.while_loop(lambda c: nc.abs(c) < 10, lambda c: c * (1 + 1j), nc.tensor(1j))
    assert abs(limit.item()) >= 10


@pytest.mark.parametrize("dtype", COMPLEX)
def test_one_function_for_all_sizes(dtype: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        product = x @ y
        return (product + 1) * nc.exp(product / 9), nc.sum(x, axis=0), nc.conj(y).T

    compiled = nc.jit(f)
    for n in (3, 4, 7, 20):
        x, y = (nc.asarray(numbers(*s, seed=n).astype(dtype.numpy)) for s in ((n, n + 1), (n + 1, 2)))
        for eager, found in zip(f(x, y), compiled(x, y), strict=True):
            assert eager.numpy().tobytes() == found.numpy().tobytes()
    assert len(compiled.concrete_functions) == 2


def test_in_place_updates_read_both_parts_first() -> None:
    @nc.jit(donate=("z",))
    def turned(z: Any) -> Any:
        return nc.complex(-nc.imag(z), nc.real(z))

    z = numbers(100)
    np.testing.assert_array_equal(turned(nc.asarray(z)).numpy(), z * 1j)


def test_graphs_with_complex_constants_parse_back() -> None:
    graph = nc.jit(lambda z: z * (1 - 2j) + nc.tensor([1j, -0.0])).trace(nc.zeros(2, dtype=nc.complex64))
    assert "(1.0:f32, -2.0:f32):c64" in str(graph)
    assert str(parse(str(graph))) == str(graph)


@pytest.mark.parametrize(
    "text", ["((1.0:f32, 2.0:f32):c64, 1.0:f32):c64", "(1.0:f32, 2.0:f64):c64", "(1:i32, 2:i32):c64"]
)
def test_wrong_complex_constants(text: str) -> None:
    with pytest.raises(nc.Error):
        parse(f"graph f(a: c64[]):\n  b: c64[] = add(a, {text})\n  return b")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)])
def test_sizes_at_the_edges(shape: tuple[int, ...]) -> None:
    z = numbers(*shape)
    x = nc.asarray(z)
    np.testing.assert_array_equal((x + x).numpy(), z + z)
    np.testing.assert_allclose(nc.sum(x).numpy(), z.sum(), 1e-15)
    np.testing.assert_allclose(nc.prod(x).numpy(), z.prod(), 1e-14)
    assert nc.view_as_real(x).shape == (*shape, 2)


# ---- printing, pickles, files


def test_printing_pickles_and_files(tmp_path: Path) -> None:
    x = nc.tensor([1 + 2j, -0.5j])
    assert repr(x) == "Tensor([ 1.+2.j , -0.-0.5j], c64[2])"
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    np.save(tmp_path / "x.npy", x.numpy())
    assert nc.asarray(np.load(tmp_path / "x.npy")).dtype is nc.complex64


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "z.safetensors"
    nc.save({"z": nc.tensor([1 + 2j, 3])}, path)
    assert nc.load(path)["z"].tolist() == [1 + 2j, 3]
    with pytest.raises(nc.Error, match="dtype must be one of the format"):
        nc.save({"z": nc.zeros(2, dtype=nc.complex128)}, path)
    assert nc.load(path)["z"].tolist() == [1 + 2j, 3]


@pytest.mark.parametrize("dtype", COMPLEX)
def test_executables(dtype: Any, tmp_path: Path) -> None:
    z = nc.asarray(numbers(5).astype(dtype.numpy))
    names = [str(tmp_path / n) for n in ("z.npy", "y.npy", "r.npy")]
    np.save(names[0], z.numpy())
    program = tmp_path / "program"
    deploy.compile(lambda z: (nc.exp(z) * 2j, nc.abs(z)), [z], program)
    subprocess.run([program, *names], check=True)
    assert np.load(names[1]).tobytes() == (nc.exp(z) * 2j).numpy().tobytes()
    assert np.load(names[2]).tobytes() == nc.abs(z).numpy().tobytes()


@pytest.mark.parametrize("count", [0, 1, 5, 200])
def test_sets(count: int) -> None:
    rng = generator(count)
    choice = np.array([0.0, -0.0, 1.0, 2.0])
    z = rng.choice(choice, count) + 1j * rng.choice(choice, count)
    found, wanted = nc.unique_all(nc.asarray(z)), np.unique(z, return_counts=True)
    np.testing.assert_array_equal(found.values.numpy(), wanted[0])
    np.testing.assert_array_equal(found.counts.numpy(), wanted[1])
    np.testing.assert_array_equal(found.values.numpy()[found.inverse_indices.numpy()], z)
    np.testing.assert_array_equal(nc.isin(nc.asarray(z), nc.asarray(z[:3])).numpy(), np.isin(z, z[:3]))


# ---- training


def split(z: Any) -> Any:
    """The parts of a complex parameter as a real parameter."""
    return nn.Parameter(nc.view_as_real(z))


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "NAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "RAdam", "Lion"]
)
def test_optimisers_take_the_parts_as_parameters(name: str) -> None:
    z = nc.asarray(numbers(4).astype(np.complex64))
    whole, apart = nn.Parameter(z), split(z)
    optimizers = [getattr(optim, name)([p], lr=0.05) for p in (whole, apart)]
    for k in range(4):
        for p, optimizer in zip((whole, apart), optimizers, strict=True):
            z = p.value if p is whole else nc.view_as_complex(p.value)
            nc.sum(nc.abs(z * (k + 1j) - 2) ** 2).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert nc.view_as_real(whole.data).numpy().tobytes() == apart.data.numpy().tobytes()


def test_clipping() -> None:
    p = nn.Parameter(nc.tensor([3 + 4j, 0j]))
    p.grad = nc.tensor([3 + 4j, 12j])
    assert optim.clip_grad_norm_([p], 1.0).item() == pytest.approx(13)
    np.testing.assert_allclose(p.grad.numpy(), np.array([3 + 4j, 12j]) / 13, 1e-6)
    with pytest.raises(nc.DTypeError, match="write clip_grad_norm_"):
        optim.clip_grad_value_([p], 1.0)
    with pytest.raises(nc.DTypeError, match="parameters must be real"):
        optim.LBFGS([p])


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda z: nc.scan(lambda c, _: (c * z, None), z, None, length=2)[0],
    "fori_loop": lambda z: nc.fori_loop(0, 2, lambda i, c: c * z, z),
    "cond": lambda z: nc.cond(nc.abs(z) > 0.5, lambda a, b: a * a * a, lambda a, b: b, z, z * 2),
}


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_through_loops_and_branches(name: str) -> None:
    z = nc.tensor(1.5 + 0.5j)
    wanted = nc.grad(lambda z: nc.abs(z * z * z))(z).item()
    for f in (nc.grad(lambda z: nc.abs(LOOPS[name](z))), nc.jit(nc.grad(lambda z: nc.abs(LOOPS[name](z))))):
        assert f(z).item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_variances_of_complex_numbers_are_real(axis: Any, keepdims: bool) -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(3, 4, 5)) + 1j * generator.normal(size=(3, 4, 5))
    for name in ("var", "std"):
        found = getattr(nc, name)(nc.asarray(x), axis=axis, keepdims=keepdims, correction=1)
        wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims, ddof=1)
        assert found.dtype is nc.float64
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13)
        compiled = nc.jit(lambda v, f=getattr(nc, name): f(v, axis=axis, keepdims=keepdims, correction=1))
        np.testing.assert_array_equal(compiled(nc.asarray(x)).numpy(), found.numpy())
