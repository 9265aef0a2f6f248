"""array-api-compat, array-api-extra, einops and opt_einsum on tensors: eager, compiled, differentiated and batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import ecosystem
import nacre as nc


class Case(NamedTuple):
    """A function of tensors by another package, the same of NumPy's arrays, and the shapes of the operands."""

    package: str
    name: str
    ours: Callable[[Any], Callable[..., Any]]  # of the package's module
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def _diagonal(x: Any) -> Any:
    made = np.zeros((*x.shape, x.shape[-1]))
    made[..., range(x.shape[-1]), range(x.shape[-1])] = x
    return made


CASES = [
    Case("einops.array_api", "rearrange", lambda e: lambda x: e.rearrange(x, "a (b c) -> c (a b)", c=3),
         lambda x: x.reshape(2, 2, 3).transpose(2, 0, 1).reshape(3, 4), ((2, 6),)),
    Case("einops.array_api", "rearrange with dots", lambda e: lambda x: e.rearrange(x, "a ... -> ... a"),
         lambda x: np.moveaxis(x, 0, -1), ((2, 3, 4),)),
    Case("einops.array_api", "reduce mean", lambda e: lambda x: e.reduce(x, "(a 2) b -> a b", "mean"),
         lambda x: x.reshape(2, 2, 3).mean(1), ((4, 3),)),
    Case("einops.array_api", "reduce max", lambda e: lambda x: e.reduce(x, "a b c -> b", "max"),
         lambda x: x.max((0, 2)), ((2, 3, 4),)),
    Case("einops.array_api", "repeat", lambda e: lambda x: e.repeat(x, "a b -> (a 2) c b", c=3),
         lambda x: np.repeat(np.repeat(x, 2, 0)[:, None], 3, 1), ((2, 3),)),
    Case("einops.array_api", "a list", lambda e: lambda x, y: e.rearrange([x, y], "n a -> a n"),
         lambda x, y: np.stack([x, y], -1), ((3,), (3,))),
    Case("einops.array_api", "pack", lambda e: lambda x, y: e.pack([x, y], "a *")[0],
         lambda x, y: np.concatenate([x, y.reshape(2, -1)], 1), ((2, 3), (2, 2, 2))),
    Case("einops.array_api", "unpack", lambda e: lambda x: e.unpack(x, [(2,), (2, 2)], "a *")[1],
         lambda x: x[:, 2:].reshape(3, 2, 2), ((3, 6),)),
    Case("opt_einsum", "chain", lambda o: lambda x, y, z: o.contract("ij,jk,kl->il", x, y, z),
         lambda x, y, z: x @ y @ z, ((2, 3), (3, 4), (4, 5))),
    Case("opt_einsum", "transposed", lambda o: lambda x, y: o.contract("ij,jk->ki", x, y),
         lambda x, y: (x @ y).T, ((2, 3), (3, 4))),
    Case("opt_einsum", "batch", lambda o: lambda x, y: o.contract("bij,bjk->bik", x, y),
         lambda x, y: x @ y, ((2, 3, 4), (2, 4, 5))),
    Case("opt_einsum", "dots", lambda o: lambda x, y: o.contract("...ij,jk->...ik", x, y, backend="nacre"),
         lambda x, y: x @ y, ((2, 3, 4), (4, 5))),
    Case("opt_einsum", "diagonals", lambda o: lambda x, y: o.contract("baa,bcc->ac", x, y),
         lambda x, y: np.einsum("baa,bcc->ac", x, y), ((2, 3, 3), (2, 4, 4))),
    Case("opt_einsum", "outer", lambda o: lambda x, y: o.contract("i,j->ij", x, y), np.outer, ((3,), (4,))),
    Case("opt_einsum", "to a number", lambda o: lambda x, y: o.contract("ij,ij", x, y),
         lambda x, y: (x * y).sum(), ((3, 4), (3, 4))),
    Case("opt_einsum", "expression", lambda o: o.contract_expression("ab,bc,cd,da->", (2, 3), (3, 4), (4, 5), (5, 2)),
         lambda a, b, c, d: np.trace(a @ b @ c @ d), ((2, 3), (3, 4), (4, 5), (5, 2))),
    Case("opt_einsum", "operands as lists", lambda o: lambda x, y: o.contract(x, [0, 1], y, [1, 2], [2, 0]),
         lambda x, y: (x @ y).T, ((2, 3), (3, 4))),
    Case("array_api_extra", "cov", lambda e: e.cov, np.cov, ((3, 5),)),
    Case("array_api_extra", "kron", lambda e: e.kron, np.kron, ((2, 3), (3, 2))),
    Case("array_api_extra", "create_diagonal", lambda e: e.create_diagonal, _diagonal, ((2, 3),)),
    Case("array_api_extra", "sinc", lambda e: e.sinc, np.sinc, ((2, 3),)),
    Case("array_api_extra", "pad", lambda e: lambda x: e.pad(x, 1), lambda x: np.pad(x, 1), ((2, 3),)),
    Case("array_api_extra", "at add", lambda e: lambda x: e.at(x, (slice(None), 1)).add(2.0, copy=True),
         lambda x: x + np.asarray([0.0, 2.0, 0.0]), ((2, 3),)),
    Case("array_api_extra", "apply_where", lambda e: lambda x: e.apply_where(x > 0.5, (x,), nc.log, lambda x: x - 1),
         lambda x: np.where(x > 0.5, np.log(x), x - 1), ((2, 3),)),
]  # fmt: skip


def operands(case: Case, batch: tuple[int, ...] = ()) -> list[Any]:
    """Random operands for a case, away from zero."""
    generator = np.random.default_rng(7)
    return [generator.uniform(0.1, 1.0, (*batch, *shape)) for shape in case.shapes]


def the_function(case: Case) -> Callable[..., Any]:
    """A case's function of tensors; skips the test if the package is not installed."""
    return case.ours(pytest.importorskip(case.package))


def loss(f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the squares of a function's result."""
    return lambda *xs: nc.sum(f(*xs) ** 2)


def name(case: Case) -> str:
    """The name of a test."""
    return f"{case.package.partition('.')[0]} {case.name}"


every_case = pytest.mark.parametrize("case", CASES, ids=name)


@every_case
def test_results_are_those_of_numpy(case: Case) -> None:
    f, arrays = the_function(case), operands(case)
    found = f(*map(nc.asarray, arrays))
    assert isinstance(found, nc.Tensor)
    np.testing.assert_allclose(found.numpy(), case.theirs(*arrays), rtol=1e-12)


@every_case
def test_compiled_functions_have_the_same_bits(case: Case) -> None:
    f, xs = the_function(case), [nc.asarray(a) for a in operands(case)]
    found = nc.jit(lambda *xs: f(*xs))(*xs)
    assert isinstance(found, nc.Tensor) and found.numpy().tobytes() == f(*xs).numpy().tobytes()


@every_case
def test_gradients_are_the_slopes(case: Case) -> None:
    f, arrays = the_function(case), operands(case)
    xs = [nc.asarray(a) for a in arrays]
    compiled = nc.jit(nc.grad(loss(f)))(*xs)
    assert compiled.numpy().tobytes() == nc.grad(loss(f))(*xs).numpy().tobytes()
    step = np.random.default_rng(3).normal(size=arrays[0].shape) * 1e-6
    up, down = (np.sum(case.theirs(arrays[0] + sign * step, *arrays[1:]) ** 2) for sign in (1, -1))
    np.testing.assert_allclose(np.sum(compiled.numpy() * step), (up - down) / 2, rtol=1e-5)


@every_case
def test_batches_have_the_results_of_their_examples(case: Case) -> None:
    f, arrays = the_function(case), operands(case, (3,))
    found = nc.vmap(f)(*map(nc.asarray, arrays))
    wanted = np.stack([case.theirs(*each) for each in zip(*arrays, strict=True)])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_einops_asks_a_compiled_function_for_sizes_and_says_so() -> None:
    e: Any = pytest.importorskip("einops.array_api")
    f = nc.jit(lambda x: e.reduce(e.rearrange(x, "a (b c) -> a c b", c=2), "a c b -> a b", "sum"))
    for rows in range(2, 5):
        x = np.arange(float(rows * 6)).reshape(rows, 6)
        assert f(nc.asarray(x)).tolist() == x.reshape(rows, 3, 2).sum(2).tolist()
    assert "einops.py" in str(f.concrete_functions[-1])


@pytest.fixture
def einops() -> Any:
    """The package einops with the class of docs/conformance.md."""
    found: Any = pytest.importorskip("einops")
    found.of_page = ecosystem.documented_backend()
    return found


def test_einops_knows_tensors_by_the_documented_class(einops: Any) -> None:
    x = nc.asarray(np.arange(24.0).reshape(2, 3, 4))
    assert einops.rearrange(x, "a b c -> c (a b)").tolist() == x.numpy().transpose(2, 0, 1).reshape(4, 6).tolist()
    assert einops.reduce(x, "a b c -> b", "mean").tolist() == x.numpy().mean((0, 2)).tolist()
    assert einops.repeat(x, "a b c -> a (b 2) c").tolist() == np.repeat(x.numpy(), 2, 1).tolist()
    assert (
        einops.einsum(x, x, "a b c, a d c -> a b d").tolist()
        == np.einsum("abc,adc->abd", x.numpy(), x.numpy()).tolist()
    )
    packed, sizes = einops.pack([x, x[..., 0]], "a b *")
    assert packed.shape == (2, 3, 5) and [y.shape for y in einops.unpack(packed, sizes, "a b *")] == [(2, 3, 4), (2, 3)]
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4} and isinstance(einops.asnumpy(x), np.ndarray)
    with pytest.raises(einops.EinopsError, match="can't divide axis"):
        einops.rearrange(x, "(a d) b c -> a b c d", d=5)


def test_the_documented_class_serves_compiled_functions(einops: Any) -> None:
    x = nc.asarray(np.arange(24.0).reshape(2, 3, 4))

    def f(x: Any) -> Any:
        """A loss of rearranged elements."""
        y = einops.rearrange(x, "a b (c d) -> (b d) (a c)", d=2)
        return einops.reduce(nc.tanh(y), "i j -> ", "sum")

    assert nc.jit(f)(x).item() == f(x).item()
    assert nc.jit(nc.grad(f))(x).tolist() == nc.grad(f)(x).tolist()
    assert nc.vmap(lambda x: einops.rearrange(x, "b c -> c b"))(x).shape == (2, 4, 3)


def test_what_einsum_lacks_says_what_to_write(einops: Any) -> None:
    o: Any = pytest.importorskip("opt_einsum")
    x, y = nc.ones((2, 3)), nc.ones((3, 4))
    assert einops.einsum(x, y, "... j, j k -> ... k").tolist() == (x @ y).tolist()
    with pytest.raises(nc.KindError, match="out= must be left out"):
        o.contract("ij,jk->ik", x, y, optimize=False, out=np.ones((2, 4)))


def test_helpers_of_array_api_compat() -> None:
    c: Any = pytest.importorskip("array_api_compat")
    x = nc.ones((2, 3))
    for version in (None, "2023.12", "2024.12"):
        assert c.array_namespace(x, 1.0, None, api_version=version) is nc
    assert c.array_namespace(x, x) is c.get_namespace(x) is nc and c.array_namespace(x, use_compat=False) is nc
    with pytest.raises(TypeError, match="Multiple namespaces"):
        c.array_namespace(x, np.ones(2))
    assert c.is_array_api_obj(x) and c.is_writeable_array(x) and not c.is_lazy_array(x)
    assert not any(getattr(c, f"is_{other}_array")(x) for other in ("numpy", "torch", "jax", "dask", "cupy"))
    assert c.device(x) == "cpu" and c.to_device(x, "cpu") is x and c.size(x) == 6


def test_helpers_of_array_api_compat_know_traced_tensors() -> None:
    c: Any = pytest.importorskip("array_api_compat")
    found: list[Any] = []

    @nc.jit
    def f(x: Any) -> Any:
        """A function that asks the helpers."""
        found.extend((c.array_namespace(x) is nc, c.is_lazy_array(x), c.device(x), c.size(x)))
        return c.to_device(c.array_namespace(x).sum(x), "cpu")

    assert f(nc.ones((2, 3))).item() == 6.0 and found == [True, True, "cpu", 6]


def test_lazy_functions_of_array_api_extra_take_compiled_paths() -> None:
    e: Any = pytest.importorskip("array_api_extra")
    x = nc.asarray([3.0, 1.0, 3.0, 2.0])
    assert e.nunique(x).item() == 3 and e.isclose(x, x + 1e-9).all() and e.argpartition(x, 1)[0].item() == 1
    assert nc.jit(lambda x: e.isclose(x, 3.0))(x).tolist() == [True, False, True, False]
    assert e.one_hot(nc.asarray([0, 2]), 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert e.setdiff1d(x, nc.asarray([3.0])).tolist() == [1.0, 2.0] and e.default_dtype(nc) is nc.float32
