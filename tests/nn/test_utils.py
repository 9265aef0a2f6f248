"""`nn.utils`: parameters as a vector, normalised weights against PyTorch's numbers, in traces, trees and files."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.nn import utils

EXPECTED: dict[str, Any] = json.loads(Path(__file__).parent.joinpath("pytorch", "norm_values.json").read_text())


def numbers(shape: Any, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=tuple(shape))


def made(line: str) -> tuple[nn.Module, nc.Tensor]:
    module = eval(line, {"nn": nn, "utils": utils, "D": nc.float64})
    module.load_state_dict({k: numbers(v.shape, n) for n, (k, v) in enumerate(module.state_dict().items())})
    return module, nc.tensor(numbers((4, 3) if "Linear" in line else (4, 3, 5), 99))


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.ravel(found.numpy()), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("line", EXPECTED)
def test_normalised_weights_are_those_of_torch(line: str, compiled: bool) -> None:
    module, x = made(line)

    def step(x: nc.Tensor) -> nc.Tensor:
        y = module(x)
        (y * y).sum().backward()
        return y

    run, told = nc.jit(step) if compiled else step, EXPECTED[line]
    run(x)
    module.zero_grad()
    close(run(x), told["out"])
    assert list(module.state_dict()) == list(told["state"])
    for name, value in module.state_dict().items():
        close(value, told["state"][name])
    assert [name for name, _ in module.named_parameters()] == list(told["gradients"])
    for name, p in module.named_parameters():
        close(p.grad, told["gradients"][name])
    module.eval()
    close(module(x), told["still"])
    close(module(x), told["still"])


@pytest.mark.parametrize("line", EXPECTED)
def test_normalised_modules_are_copied_pickled_and_differentiated_as_trees(line: str) -> None:
    module, x = made(line)
    module.eval()
    y = module(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(other) is type(module) and isinstance(other, type(module).__mro__[1])
        np.testing.assert_array_equal(other(x).numpy(), y.numpy())
        assert repr(other) == repr(module)
    (y * y).sum().backward()
    found: Any = nc.grad(lambda m: nc.sum(m(x) ** 2))(module)
    for name, p in module.named_parameters():
        assert p.grad is not None
        close(nc.asarray(getattr(found, name)), p.grad.numpy().ravel())


def test_a_compiled_training_with_normalised_weights_has_the_eager_bits() -> None:
    def trained(compiled: bool) -> list[bytes]:
        nc.random.seed(3)
        model = nn.Sequential(utils.spectral_norm(nn.Linear(3, 8)), nn.Tanh(), utils.weight_norm(nn.Linear(8, 1)))
        o = optim.Adam(model.parameters(), lr=0.05)
        x = nc.random.normal((16, 3))

        def step(x: nc.Tensor) -> nc.Tensor:
            loss = ((model(x) - x[:, :1]) ** 2).mean()
            loss.backward()
            o.step()
            o.zero_grad()
            return loss

        run = nc.jit(step) if compiled else step
        losses = [run(x).item() for _ in range(6)]
        assert losses[-1] < losses[0]
        assert not compiled or len(run.concrete_functions) == 1  # type: ignore[attr-defined]
        return [v.numpy().tobytes() for v in model.state_dict().values()]

    assert trained(True) == trained(False)


def test_norms_are_removed() -> None:
    x = nc.ones((1, 3))
    for add, remove in (
        (utils.weight_norm, utils.remove_weight_norm),
        (utils.spectral_norm, utils.remove_spectral_norm),
    ):
        layer = add(nn.Linear(3, 2)).eval()
        y = layer(x).tolist()
        assert remove(layer)(x).tolist() == y and type(layer) is nn.Linear
        with pytest.raises(nc.StateError, match=r"must have a (weight|spectral) norm"):
            remove(layer)


def test_vectors_of_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.tolist() == [v for p in model.parameters() for v in p.numpy().ravel().tolist()]
    (vector * vector).sum().backward()
    for p in model.parameters():
        assert p.grad is not None
        np.testing.assert_array_equal(p.grad.numpy(), 2 * p.numpy())
    utils.vector_to_parameters(nc.arange(13, dtype=nc.float32), model.parameters())
    assert model[1].bias.tolist() == [12.0] and model[0].weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    for wrong in (nc.ones(12), nc.ones((13, 1))):
        with pytest.raises(nc.ShapeError, match="13 numbers"):
            utils.vector_to_parameters(wrong, model.parameters())
    assert model[1].bias.tolist() == [12.0]


def test_clipping_is_that_of_optim() -> None:
    for space in (utils, optim):
        p = nn.Parameter([0.0, 0.0])
        p.grad = nc.tensor([3.0, 4.0])
        assert space.clip_grad_norm_([p], 2.5).item() == 5.0
        space.clip_grad_value_(p, 1.75)
        assert p.grad.tolist() == pytest.approx([1.5, 1.75])


@pytest.mark.parametrize(("add", "text"), [
    (lambda: utils.weight_norm(nn.Linear(3, 2), "weigth"), "'weigth' is not the name.*; there are weight, bias"),
    (lambda: utils.weight_norm(nn.ReLU()), "there are none"),
    (lambda: utils.weight_norm(nn.Linear(3, 2), dim=2), "dim must be None or below 2"),
    (lambda: utils.spectral_norm(nn.Linear(3, 2), dim=2), "dim must be below 2"),
    (lambda: utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=0), "n_power_iterations"),
    (lambda: utils.weight_norm(utils.weight_norm(nn.Linear(3, 2))), "'weight' is not the name"),
    (lambda: utils.parameters_to_vector([]), "got none"), (lambda: utils.parameters_to_vector([3]), "got int"),
], ids=range(8))  # fmt: skip
def test_errors(add: Any, text: str) -> None:
    with pytest.raises(nc.ArgumentError, match=text):
        add()
