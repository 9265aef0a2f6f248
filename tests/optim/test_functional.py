"""`optim.functional`: optimisers as pure functions; ensembles by `vmap` have the bits of models trained one by one."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from nacre import nn, optim
from tensor_bits import bits

KINDS: list[tuple[Any, dict[str, Any]]] = [
    (optim.SGD, {"lr": 1e-2}),
    (optim.SGD, {"lr": 1e-2, "momentum": 0.9, "dampening": 0.1}),
    (optim.Adam, {"lr": 1e-2}),
    (optim.AdamW, {"amsgrad": True}),
    (optim.NAdam, {}),
    (optim.RAdam, {}),
    (optim.Adagrad, {}),
    (optim.Adadelta, {}),
    (optim.Adamax, {}),
    (optim.RMSprop, {"centered": True, "momentum": 0.9}),
    (optim.Lion, {}),
    (optim.LAMB, {"lr": 1e-2}),
]


def network(seed: int) -> Any:
    nc.random.seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def loss(model: Any, x: Any, y: Any) -> Any:
    return ((model(x) - y) ** 2).mean()


def stacked(models: Any) -> Any:
    return nc.tree.map(lambda *ps: nc.stack([p.data for p in ps]), *models)


def samples() -> tuple[Any, Any]:
    nc.random.seed(99)
    x = nc.random.normal((16, 4))
    return x, nc.sin(x.sum(axis=1, keepdims=True))


def one_by_one(models: Any, kind: Any, settings: dict[str, Any], steps: int) -> list[bytes]:
    x, y = samples()
    for model in models:
        opt = kind(model.parameters(), **settings)
        for _ in range(steps):
            opt.zero_grad()
            loss(model, x, y).backward()
            opt.step()
    return bits([p.data for m in models for p in m.parameters()])


@pytest.mark.parametrize(("kind", "settings"), KINDS, ids=lambda v: getattr(v, "__name__", ""))
def test_an_ensemble_has_the_bits_of_its_models(kind: Any, settings: dict[str, Any]) -> None:
    models, (x, y) = [network(k) for k in range(4)], samples()
    opt = optim.functional(kind, **settings)

    def step(model: Any, state: Any) -> Any:
        return opt.step(model, nc.grad(loss)(model, x, y), state)

    ensemble = stacked(models)
    state = nc.vmap(opt.start)(ensemble)
    each = nc.jit(nc.vmap(step))
    for _ in range(3):
        ensemble, state = each(ensemble, state)
    members = [nc.tree.map(lambda p, k=k: p[k], ensemble) for k in range(4)]
    assert bits([p for m in members for p in m.parameters()]) == one_by_one(models, kind, settings, 3)
    assert state.numbers["step"].tolist() == [3] * 4


def test_a_batch_of_learning_rates() -> None:
    rates, model = (1e-1, 1e-2, 1e-3), network(0)
    x, y = samples()
    opt = optim.functional(optim.Adam)

    def step(rate: Any) -> Any:
        params = nc.tree.map(lambda p: p.data, model)
        return opt.step(params, nc.grad(loss)(params, x, y), opt.start(params)._replace(rate=rate))[0]

    found = nc.vmap(step)(nc.tensor(rates, dtype=nc.float64))
    for k, rate in enumerate(rates):
        again = network(0)
        wanted = one_by_one([again], optim.Adam, {"lr": rate}, 1)
        assert bits([p[k] for p in found.parameters()]) == wanted


def test_a_gradient_through_steps() -> None:
    opt = optim.functional(optim.SGD)

    def after(rate: Any) -> Any:
        w = nc.tensor([3.0], dtype=nc.float64)
        state = opt.start(w)._replace(rate=rate)
        for _ in range(2):
            w, state = opt.step(w, 2 * w, state)
        return w[0]

    rate = nc.tensor(0.1, dtype=nc.float64)  # 3 · (1 − 2·rate)²
    assert nc.grad(after)(rate).item() == pytest.approx(-12 * 0.8, rel=1e-12)


def test_bad_input_is_refused() -> None:
    with pytest.raises(nc.KindError, match="minimize"):
        optim.functional(optim.LBFGS)
    with pytest.raises(nc.KindError, match="class of optimisers"):
        optim.functional(nn.Linear)  # pyright: ignore[reportArgumentType]
    opt = optim.functional(optim.Adam, lr=0.1)
    with pytest.raises(nc.ArgumentError, match="structure of the parameters"):
        opt.step({"a": nc.ones(2)}, [nc.ones(2)], opt.start({"a": nc.ones(2)}))
    with pytest.raises(nc.ArgumentError, match="the state must be that of start"):
        opt.step(nc.ones(2), nc.ones(2), opt.start((nc.ones(2), nc.ones(2))))
    with pytest.raises(nc.DTypeError, match="floating-point"):
        opt.start(nc.tensor([1, 2]))
    with pytest.raises(nc.ArgumentError, match="unexpected keyword 'speed'"):
        optim.functional(optim.Adam, speed=1.0).start(nc.ones(2))
