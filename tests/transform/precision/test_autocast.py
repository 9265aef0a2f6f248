"""autocast: which dtypes operations have, the same bits in every mode, and float32 gradients."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import nn, optim
from nacre.compile.passes.simplify import simplify
from nacre.interpret.precision import policy
from nacre.ir import primitive
from nacre.ir.primitive import registered
from ops.row import Row
from ops.table import ROWS
from same_bits import canonical, operands

F = nn.functional
X = nc.random.normal((4, 8), key=nc.random.key(0))
W = nc.random.normal((8, 8), key=nc.random.key(1))
LOW = nc.autocast(nc.bfloat16)


def same(a: Any, b: Any) -> bool:
    return canonical(a) == canonical(b)


# ---- the policy

DTYPES: dict[str, tuple[Callable[[Any], Any], nc.DType]] = {
    "product": (lambda y: y @ W, nc.bfloat16),
    "linear": (lambda y: F.linear(y, W, W[0]), nc.bfloat16),
    "einsum": (lambda y: nc.einsum("ij,jk->ik", X, W), nc.bfloat16),
    "convolution": (lambda y: F.conv1d(X[None], W[:, :4, None], W[0]), nc.bfloat16),
    "attention": (lambda y: F.scaled_dot_product_attention(X, X, X), nc.bfloat16),
    "sum": (nc.sum, nc.float32),
    "mean": (nc.mean, nc.float32),
    "exp": (nc.exp, nc.float32),
    "power": (lambda y: y**3, nc.float32),
    "cumulative sum": (lambda y: nc.cumulative_sum(y, axis=0, include_initial=True), nc.float32),
    "softmax": (F.softmax, nc.float32),
    "loss": (lambda y: F.mse_loss(y, y), nc.float32),
    "classes": (lambda y: F.cross_entropy(y, nc.tensor([0, 1, 2, 3])), nc.float32),
    "activation": (F.gelu, nc.bfloat16),
    "comparison": (lambda y: nc.maximum(y, y), nc.bfloat16),
    "mixed": (lambda y: y + X, nc.float32),
    "joined": (lambda y: nc.concat([y, X]), nc.float32),
    "normalised": (lambda y: F.layer_norm(y, 8, W[0], W[1]), nc.bfloat16),
    "float64": (lambda y: X.astype(nc.float64) @ W.astype(nc.float64), nc.float64),
    "complex": (lambda y: (X * 1j) @ (W * 1j), nc.complex64),
    "integers": (lambda y: nc.ones((2, 2), dtype=nc.int32) @ nc.ones((2, 2), dtype=nc.int32), nc.int32),
    "a product in a named dtype": (lambda y: nc.matmul(X, W, dtype=nc.float32), nc.float32),
    "a sum in a named dtype": (lambda y: nc.sum(y, dtype=nc.bfloat16), nc.bfloat16),
    "off": (lambda y: nc.autocast(enabled=False)(lambda: X @ W)(), nc.float32),
    "the other half type": (lambda y: nc.autocast(nc.float16)(lambda: y @ W)(), nc.float16),
}


@pytest.mark.parametrize("name", DTYPES)
def test_the_dtype_of_a_result(name: str) -> None:
    f, wanted = DTYPES[name]

    def run() -> Any:
        with nc.autocast(nc.bfloat16):
            return f(X @ W)

    eager, compiled = run(), nc.jit(run)()
    assert eager.dtype is wanted and compiled.dtype is wanted
    assert same(eager, compiled)


def test_products_are_those_of_rounded_factors() -> None:
    with LOW:
        y = X @ W
    assert same(y, X.astype(nc.bfloat16) @ W.astype(nc.bfloat16))
    with LOW:
        z = F.scaled_dot_product_attention(X, X, X)
    assert same(z, F.scaled_dot_product_attention(*[X.astype(nc.bfloat16)] * 3))


def test_complex_products_are_not_rounded() -> None:
    a, b = X * 1j, W * 1j
    with LOW:
        found = a @ b
    assert same(found, a @ b)


def test_the_policy_names_primitives_and_functions_that_exist() -> None:
    text = str(nc.autocast_policy())
    assert all(word in text for word in ("matmul", "conv2d", "softmax", "exp", "all others"))
    assert {p.precision for p in registered().values()} == {None, primitive.LOW, primitive.SINGLE}
    known = {*nc.nn.functional.__all__, *dir(nc), *dir(nc.linalg)}
    assert (policy.LOW_FUNCTIONS | policy.SINGLE_FUNCTIONS) - {"logsumexp"} <= known
    for name in policy.SINGLE_FUNCTIONS:
        if "loss" in name or name.startswith("kl") or "entropy" in name:
            assert hasattr(getattr(F, name), "__wrapped__"), name


def test_bad_settings_are_refused() -> None:
    for dtype in (nc.float32, nc.int8, "cpu", "half"):
        with pytest.raises(nc.ArgumentError, match="bfloat16 or float16"):
            nc.autocast(dtype)
    with pytest.raises(nc.KindError):
        nc.autocast(nc.bfloat16, enabled="yes")  # type: ignore[arg-type]


def test_calls_of_pytorch_with_a_device_say_what_to_write() -> None:
    autocast: Any = nc.autocast
    for given, named in (("cuda",), {"dtype": nc.bfloat16}), ((), {"device_type": "cuda", "dtype": nc.bfloat16}):
        with pytest.raises(nc.KindError, match="leave this out"):
            autocast(*given, **named)
    with pytest.raises(nc.ArgumentError, match="without a device"):
        autocast("cuda", nc.bfloat16)
    with pytest.raises(nc.KindError, match=r"axis must be given once; got 0 by position and axis=1"):
        nc.sum(X, 0, axis=1)  # type: ignore[call-overload,misc]
    for name in ("GradScaler", "is_autocast_enabled", "set_autocast_enabled", "set_autocast_dtype"):
        with pytest.raises(AttributeError, match=r"nacre\.(optim\.GradScaler|get_autocast_dtype|autocast)"):
            getattr(nc, name)


# ---- functions that otherwise require one dtype

PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "grid": lambda x, y: F.grid_sample(x.reshape(1, 2, 4, 4), y.reshape(1, 4, 4, 2)),
    "sequences": lambda x, y: nn.pad_sequence([x, y[:2]]),
    "packed": lambda x, y: nn.pack_sequence([x, y[:2]]).padded,
}


@pytest.mark.parametrize("name", PAIRS)
def test_operands_of_two_precisions_are_converted_to_the_widest(name: str) -> None:
    f = PAIRS[name]
    low = (X @ W).astype(nc.bfloat16)
    for x, y in ((low, X), (X, low)):
        with pytest.raises(nc.DTypeError):
            f(x, y)
        wanted = f(x.astype(nc.float32), y.astype(nc.float32))
        with LOW:
            eager, compiled = f(x, y), nc.jit(f)(x, y)
        assert same(eager, wanted) and same(compiled, wanted)
    with LOW:
        assert f(low, low).dtype is nc.bfloat16


def test_blocks_nest_and_end() -> None:
    with nc.autocast(nc.float16):
        with nc.autocast(nc.bfloat16), nc.autocast(enabled=False):
            assert nc.get_autocast_dtype() is None
        assert nc.get_autocast_dtype() is nc.float16
    assert nc.get_autocast_dtype() is None
    with pytest.raises(ZeroDivisionError), LOW:
        raise ZeroDivisionError
    assert (X @ W).dtype is nc.float32


def test_a_compiled_function_that_leaves_the_mode_on_is_an_error() -> None:
    @nc.jit
    def f(x: Any) -> Any:
        nc.autocast().__enter__()
        return x @ W

    with pytest.raises(nc.TraceError, match="must leave"):
        f(X)
    assert nc.get_autocast_dtype() is None


# ---- the same bits in every mode


@pytest.mark.sampled(5)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_operations_have_the_same_bits_eagerly_and_compiled(row: Row) -> None:
    for dtype in (nc.float32, nc.bfloat16):
        if dtype not in row.dtypes:
            continue
        values = [nc.tensor(a) for a in operands(row, dtype)]

        def run(*xs: Any) -> Any:
            with nc.autocast(nc.bfloat16):
                found = row.apply(*xs)
            return found if isinstance(found, tuple) else (found,)

        for a, b in zip(run(*values), nc.jit(run)(*values), strict=True):
            assert same(a, b)


def models() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    nc.random.seed(0)
    x, image = nc.random.normal((3, 5, 8)), nc.random.normal((2, 3, 8, 8))
    return {
        "mlp": (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), (x,)),
        "rnn": (nn.RNN(8, 6, bias=False), (x,)),
        "lstm": (nn.LSTM(8, 6), (x,)),
        "gru": (nn.GRU(8, 6), (x,)),
        "attention": (nn.MultiheadAttention(8, 2), (x, x, x)),
        "transformer": (nn.TransformerEncoderLayer(8, 2, dropout=0.0), (x,)),
        "convnet": (
            nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                nn.Linear(128, 4),
            ),
            (image,),
        ),
        "transposed": (nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.GroupNorm(2, 4), nn.AvgPool2d(2)), (image,)),
        "bilinear": (nn.Bilinear(8, 8, 4), (x, x)),
    }  # fmt: skip


MODELS = models()


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_same_bits_in_every_mode(name: str) -> None:
    model, xs = MODELS[name]
    model.eval()
    parameters = list(model.parameters())

    def loss(*xs: Any) -> Any:
        with nc.autocast(nc.bfloat16):
            y = model(*xs)
            y = y[0] if isinstance(y, tuple) else y
            return F.mse_loss(y, nc.ones(y.shape))

    def step(*xs: Any) -> Any:
        found = loss(*xs)
        found.backward()
        return found

    def gradients(f: Callable[..., Any]) -> list[bytes]:
        model.zero_grad()
        found = [canonical(f(*xs))]
        assert all(p.grad.dtype is nc.float32 for p in parameters)
        return [*found, *(canonical(p.grad) for p in parameters)]

    def outside(*xs: Any) -> Any:
        found = loss(*xs)
        with nc.autocast(nc.float16):  # the backward pass has the dtypes of the forward pass
            found.backward()
        return found

    def checkpointed(*xs: Any) -> Any:
        found = nc.checkpoint(loss)(*xs)
        found.backward()
        return found

    wanted = gradients(step)
    for f in (nc.jit(step), outside, nc.jit(outside), checkpointed, nc.jit(checkpointed)):
        assert gradients(f) == wanted
    model.zero_grad()


def f(w: Any, x: Any) -> Any:
    with nc.autocast(nc.bfloat16):
        return (nc.tanh(x @ w) @ w).sum()


def test_derivatives() -> None:
    wanted = nc.grad(f)(W, X)
    assert wanted.dtype is nc.float32

    def inside(w: Any, x: Any) -> Any:
        with LOW:
            return nc.grad(lambda w: (nc.tanh(x @ w) @ w).sum())(w)

    for g in (nc.jit(nc.grad(f)), nc.grad(nc.jit(f)), inside, nc.jit(inside)):
        assert same(g(W, X), wanted)
    pushed = nc.jvp(lambda w: f(w, X), (W,), (W,))
    assert all(map(same, pushed, nc.jit(lambda w: nc.jvp(lambda w: f(w, X), (w,), (w,)))(W)))
    assert nc.hessian(lambda v: f(W, v[None]))(X[0]).dtype is nc.float32


def test_batches() -> None:
    rows = nc.stack([f(W, X[k][None]) for k in range(4)])
    assert same(nc.vmap(lambda r: f(W, r[None]))(X), rows)
    with LOW:
        inside = nc.vmap(lambda r: nc.tanh(r[None] @ W).sum())(X)
    assert same(inside, nc.stack([nc.jit(nc.autocast()(lambda k: nc.tanh(X[k][None] @ W).sum()))(k) for k in range(4)]))


def scanned(x: Any) -> Any:
    with LOW:
        return nc.scan(lambda h, r: (nc.tanh(h @ W + r @ W), (h @ W).sum()), nc.zeros((8,)), x)[0]


def repeated(x: Any) -> Any:
    with LOW:
        return nc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] @ W), (nc.tensor(0), x))[1]


def chosen(x: Any) -> Any:
    with LOW:
        return nc.cond(x.sum() > 0, lambda x: x @ W, lambda x: x * 2, x)


def in_python(x: Any) -> Any:
    with LOW:
        for _ in range(3):
            x = nc.tanh(x @ W)
        return x


@pytest.mark.parametrize("f", [scanned, repeated, chosen, in_python], ids=label)
def test_control_flow(f: Callable[[Any], Any]) -> None:
    assert same(f(X), nc.jit(f)(X))
    assert f(X).dtype is (nc.bfloat16 if f is in_python else nc.float32)
    if f is not repeated:
        gradient = nc.grad(lambda x: f(x).sum())
        assert same(gradient(X), nc.jit(gradient)(X)) and gradient(X).dtype is nc.float32


class Product(nc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, w = ctx.saved_tensors
        return gradient @ w.mT, x.mT @ gradient


@nc.custom_vjp
def product(x: Any, w: Any) -> Any:
    return x @ w


product.defvjp(lambda x, w: (x @ w, (x, w)), lambda saved, g: (g @ saved[1].mT, saved[0].mT @ g))


@pytest.mark.parametrize("apply", [Product.apply, product], ids=["Function", "custom_vjp"])
def test_functions_with_derivatives_of_their_own(apply: Callable[[Any, Any], Any]) -> None:
    """Both rules run in the mode of the call, and their gradients have the operands' dtypes."""

    def through(call: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def loss(x: Any, w: Any) -> Any:
            with LOW:
                y = call(x, w)
            return y.sum()

        return nc.grad(loss, (0, 1))

    wanted = through(lambda x, w: x @ w)(X, W)
    for g in (through(apply), nc.jit(through(apply))):
        assert all(map(same, g(X, W), wanted))


def test_host_calls_run_without_it() -> None:
    seen: list[Any] = []

    def called(a: Any) -> Any:
        seen.append((a @ a.mT).dtype)
        return a

    def run(x: Any) -> Any:
        return nc.host_call(called, x.type, x)

    with LOW:
        run(X)
        nc.jit(run)(X)
    assert seen == [nc.float32, nc.float32]


# ---- variants, steps, and other things in the block beside operations


def test_a_compiled_function_has_a_variant_for_the_mode() -> None:
    compiled = nc.jit(lambda x: x @ W)
    for _ in range(2):
        assert compiled(X).dtype is nc.float32
        with LOW:
            assert compiled(X).dtype is nc.bfloat16
    assert len(compiled.concrete_functions) == 2
    assert "autocast is to bfloat16 now, and off before" in str(compiled.concrete_functions)


def test_a_weight_that_is_used_often_is_converted_once() -> None:
    def rounds(w: Any, x: Any) -> Any:
        with LOW:
            for _ in range(4):
                x = nc.tanh(x @ w)
            return x

    conversions = [
        e
        for e in simplify(nc.jit(rounds).trace(W, X)).equations
        if e.primitive.name == "cast" and e.inputs[0].type.shape == W.shape and e.outputs[0].type.dtype is nc.bfloat16
    ]
    assert len(conversions) == 1


def test_an_optimiser_steps_in_float32_inside_of_the_block() -> None:
    def trained(inside: bool) -> list[bytes]:
        nc.random.seed(0)
        model = nn.Linear(8, 4)
        opt = optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(3):
            with nc.autocast(nc.bfloat16):
                loss = F.mse_loss(model(X), nc.ones((4, 4)))
                if inside:
                    loss.backward()
                    opt.step()
            if not inside:
                loss.backward()
                opt.step()
            opt.zero_grad()
        return [canonical(p.value) for p in model.parameters()]

    assert trained(True) == trained(False)


def test_hooks_and_tensors_written_in_place() -> None:
    seen: list[Any] = []
    x = X.detach().requires_grad_()
    with LOW:
        y = x @ W
        y.register_hook(lambda g: seen.append((g.dtype, (g @ W).dtype)))
        z = nc.zeros((4, 8))
        z[1:3] = y[1:3]
        z += y
    z.sum().backward()
    assert z.dtype is nc.float32 and x.grad.dtype is nc.float32
    assert seen == [(nc.bfloat16, nc.float32)]
    with LOW, nc.no_grad():
        assert not (x @ W).requires_grad


def test_the_mode_belongs_to_a_thread() -> None:
    seen: list[Any] = []
    with LOW:
        thread = Thread(target=lambda: seen.append((X @ W).dtype))
        thread.start()
        thread.join()
    assert seen == [nc.float32]


def test_the_mode_stays_when_something_is_compiled_in_the_block() -> None:
    """Operations whose programs exist already run in native code, which knows by a count whether a mode applies."""

    class Twice(nc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    square, low = nc.ones((3, 3)), nc.ones((3, 3), dtype=nc.bfloat16)
    weight = nn.Parameter(nc.ones((3, 3)))
    for _ in range(20):
        square @ square
    with LOW:
        assert (square @ square).dtype is nc.bfloat16
        for something in (
            lambda: F.softmax(low, -1),
            lambda: Twice.apply(weight).sum().backward(),
            lambda: optim.SGD([weight], lr=0.1).step(),
            lambda: nc.jit(lambda x: nc.exp(x) * 3)(square),
        ):
            something()
            assert (square @ square).dtype is nc.bfloat16
            with nc.autocast(enabled=False):
                something()
                assert (square @ square).dtype is nc.float32
            assert (square @ square).dtype is nc.bfloat16
    assert (square @ square).dtype is nc.float32


def test_generators_compute_in_it_between_their_yields() -> None:
    @nc.autocast(nc.bfloat16)
    def pieces() -> Any:
        yield (X @ W).dtype
        yield (X @ W).dtype

    found = pieces()
    assert (next(found), (X @ W).dtype, next(found)) == (nc.bfloat16, nc.float32, nc.bfloat16)


def test_numpy_sees_float32_parameters() -> None:
    layer = nn.Linear(8, 4)
    with LOW:
        layer(X)
    assert layer.weight.dtype is nc.float32 and layer.weight.numpy().dtype == np.float32
