"""Random numbers under `vmap`: an error, the same for all examples, or different for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from nacre import nn
from nacre.base.errors import ArgumentError, StateError
from surface import FUNCTIONS

ROWS, SIZE = 4, 64
XS = nc.ones((ROWS, SIZE))
MODULES: dict[str, Any] = {
    "Dropout": nn.Dropout(0.5),
    "AlphaDropout": nn.AlphaDropout(0.5),
    "FeatureAlphaDropout": lambda x: nn.FeatureAlphaDropout(0.5)(x[None, :, None]),
    "Dropout1d": lambda x: nn.Dropout1d(0.5)(x[None, :, None]),
    "Dropout2d": lambda x: nn.Dropout2d(0.5)(x[None, :, None, None]),
    "Dropout3d": lambda x: nn.Dropout3d(0.5)(x[None, :, None, None, None]),
    "RReLU": lambda x: nn.RReLU()(-x),
    "MultiheadAttention": lambda x: ATTEND(x[:, None], x[:, None], x[:, None])[0],
}
ATTEND = nn.MultiheadAttention(1, 1, dropout=0.5)
DRAWN: dict[str, Callable[[Any], Any]] = {  # public functions with a key argument: they draw a key by default
    name: function
    for name, function in FUNCTIONS.items()
    if "key" in inspect.signature(function).parameters and "key: TensorLike | None" in str(inspect.signature(function))
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "nacre.random.bits": lambda x: nc.random.bits((SIZE,)),
    "nacre.random.uniform": lambda x: nc.random.uniform((SIZE,)),
    "nacre.random.normal": lambda x: nc.random.normal((SIZE,)),
    "nacre.random.bernoulli": lambda x: nc.random.bernoulli(0.5, (SIZE,)),
    "nacre.random.randint": lambda x: nc.random.randint(0, 1000, (SIZE,)),
    "nacre.nn.functional.dropout": nn.functional.dropout,
    "gumbel_softmax": nn.functional.gumbel_softmax,
    "Generator": lambda x: nc.random.uniform((SIZE,), key=OWN.next_key()),
    **MODULES,
}
OWN = nc.random.Generator(3)


def compiled_before(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    compiled = nc.jit(f)
    compiled(nc.ones(SIZE))
    return compiled


WRAPS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda f: f,
    "jit": nc.jit,
    "jit met before": compiled_before,
    "checkpoint": nc.checkpoint,
    "scan": lambda f: lambda x: nc.scan(lambda c, _: (c, f(x)), nc.tensor(0.0), length=2)[1],
    "cond": lambda f: lambda x: nc.cond(nc.tensor(True), f, f, x),
    "grad": lambda f: lambda x: nc.grad(lambda x: nc.sum(x * f(x).astype(nc.float32) ** 2))(x),
}


def rows_differ(found: Any) -> bool:
    rows = [row.numpy().tobytes() for row in found]
    if len(set(rows)) == 1:
        return False
    assert len(set(rows)) == ROWS
    return True


def check(name: str, wrap: str) -> None:
    f = WRAPS[wrap](CALLS[name])
    with pytest.raises(StateError, match="randomness"):
        nc.vmap(f)(XS)
    for randomness, differ in (("same", False), ("different", True)):
        found = []
        for outer in (lambda g: g, nc.jit, lambda g: g):
            nc.random.seed(1), OWN.seed(1)
            found.append(outer(nc.vmap(f, randomness=randomness))(XS))
            assert nc.random.generator().state.value.shape == (2,)
            after = nc.random.generator().state.value.tolist()
        assert rows_differ(found[0]) is differ, (name, wrap, randomness)
        assert all(x.numpy().tobytes() == found[0].numpy().tobytes() for x in found[1:])
        assert (
            nc.vmap(f, randomness=randomness)(XS).numpy().tobytes() != found[0].numpy().tobytes()
        )  # the state continues
        assert nc.random.generator().state.value.tolist() != after or name == "Generator"


def test_every_public_function_that_draws_has_a_case() -> None:
    drawing = {name for name in DRAWN if not name.endswith(("random.split", "random.key"))}
    assert {n.rpartition(".")[2] for n in drawing} <= {n.rpartition(".")[2] for n in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_random_numbers_in_a_batch(name: str) -> None:
    check(name, "plain")


@pytest.mark.parametrize("wrap", WRAPS)
def test_random_numbers_in_a_function_staged_in_a_batch(wrap: str) -> None:
    check("Dropout", wrap)
    check("Generator", wrap)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("name", CALLS)
def test_random_numbers_in_every_staged_function(name: str, wrap: str) -> None:
    check(name, wrap)


def test_batches_in_batches() -> None:
    def draw(outer: str, inner: str) -> Any:
        nc.random.seed(0)
        return nc.vmap(nc.vmap(lambda x: nc.random.uniform(), randomness=inner), randomness=outer)(nc.ones((3, 5)))

    assert len(set(draw("different", "different").flatten().tolist())) == 15
    rows = draw("different", "same")
    assert len(set(rows.flatten().tolist())) == 3 and all(len(set(row.tolist())) == 1 for row in rows)
    columns = draw("same", "different")
    assert len(set(columns.flatten().tolist())) == 5 and all(len(set(c.tolist())) == 1 for c in columns.T)
    assert len(set(draw("same", "same").flatten().tolist())) == 1
    with pytest.raises(StateError):
        draw("error", "different")
    with pytest.raises(StateError):
        draw("different", "error")


def test_keys_are_arguments_like_others() -> None:
    keys = nc.stack(nc.random.split(nc.random.key(0), ROWS))
    own = nc.vmap(lambda x, key: nn.functional.dropout(x, key=key))(XS, keys)
    assert rows_differ(own)
    for k in range(ROWS):
        assert own[k].tolist() == nn.functional.dropout(XS[k], key=keys[k]).tolist()
    assert not rows_differ(nc.vmap(lambda x: nn.functional.dropout(x, key=keys[0]))(XS))


def test_derivatives_in_separate_batches_draw_once() -> None:
    nc.random.seed(0)
    found = nc.jacfwd(nn.functional.dropout)(nc.ones(SIZE))
    nc.random.seed(0)
    wanted = nn.functional.dropout(nc.ones(SIZE))
    assert nc.sum(found, axis=0).tolist() == wanted.tolist()


def test_gradients_of_each_sample_of_a_model_with_dropout() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def loss(model: Any, x: Any) -> Any:
        return nc.sum(model(x) ** 2)

    each = nc.vmap(nc.grad(loss), in_axes=(None, 0), randomness="different")(model, nc.ones((ROWS, 3)))
    assert rows_differ(each.get_parameter("0.weight"))
    model.eval()
    assert not rows_differ(
        nc.vmap(nc.grad(loss), in_axes=(None, 0))(model, nc.ones((ROWS, 3))).get_parameter("0.weight")
    )


def test_randomness_is_one_of_three() -> None:
    with pytest.raises(ArgumentError, match='"error", "same" or "different"'):
        nc.vmap(lambda x: x, randomness="differnt")  # type: ignore[arg-type]
