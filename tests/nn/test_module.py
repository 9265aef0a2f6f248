"""Modules: contents, state dicts, modes, trees, and changes that compiled functions notice."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.base import tree


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter([2.0])
        self.norm = nn.BatchNorm1d(4)
        self.rest = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))])
        self.register_buffer("offset", [1.0, 2.0], persistent=False)
        self.power = 1

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        x = self.norm(self.first(x)) * self.scale
        for module in self.rest:
            x = module(x)
        return (x + self.offset) ** self.power


PARAMETERS = [
    "scale", "first.weight", "first.bias", "norm.weight", "norm.bias", "rest.0.weight", "rest.0.bias",
    "rest.1.1.weight", "rest.1.1.bias",
]  # fmt: skip
BUFFERS = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


def test_names() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == PARAMETERS
    assert [n for n, _ in net.named_buffers()] == ["offset", *BUFFERS]
    assert [n for n, _ in net.named_modules()] == [
        "", "first", "norm", "rest", "rest.0", "rest.1", "rest.1.0", "rest.1.1",
    ]  # fmt: skip
    assert sorted(net.state_dict()) == sorted(PARAMETERS + BUFFERS)
    assert [n for n, _ in net.named_children()] == ["first", "norm", "rest"]
    assert len(net.rest) == 2 and isinstance(net.rest[1][0], nn.ReLU)


def test_shared_parameters_count_once_but_are_saved_under_both_names() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert {"0.weight", "1.weight"} <= set(net.state_dict())


def test_state_dicts_round_trip() -> None:
    nc.random.seed(0)
    one, two = Net(), Net()
    x = nc.tensor(np.float32([[1, 2, 3], [4, 5, 7]]))
    one(x)
    assert two.load_state_dict(one.state_dict()) == ([], [])
    np.testing.assert_array_equal(one.eval()(x).numpy(), two.eval()(x).numpy())
    arrays = {k: v.numpy() for k, v in one.state_dict().items()}
    two.load_state_dict(arrays)
    assert two.norm.num_batches_tracked.item() == 1


def test_wrong_state_dicts_change_nothing() -> None:
    net = nn.Linear(2, 3)
    before = net.weight.numpy().copy()
    good = {"weight": np.ones((3, 2), "f"), "bias": np.ones(3, "f")}
    with pytest.raises(nc.ArgumentError, match=r"missing \['bias'\], unexpected \['b'\]"):
        net.load_state_dict({"weight": good["weight"], "b": good["bias"]})
    with pytest.raises(nc.ShapeError, match=r"weight: \[3, 2\], got \[2, 3\]"):
        net.load_state_dict({"bias": good["bias"], "weight": good["weight"].T})
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert net.load_state_dict({"weight": good["weight"], "b": 1}, strict=False) == (["bias"], ["b"])
    np.testing.assert_array_equal(net.weight.numpy(), good["weight"])


def test_modes_apply_and_freezing() -> None:
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    seen: list[str] = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Net" and seen.count("Linear") == 3
    net.requires_grad_(False)
    assert not net.eval()(nc.ones((1, 3))).requires_grad
    net.requires_grad_()
    assert net(nc.ones((1, 3))).requires_grad


def test_converting_and_zeroing() -> None:
    net = Net().to(nc.float64)
    assert {p.dtype for p in net.parameters()} == {nc.float64}
    assert net.norm.running_mean.dtype is nc.float64 and net.norm.num_batches_tracked.dtype is nc.int64
    net(nc.ones((2, 3), nc.float64)).sum().backward()
    assert net.scale.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0]
    net.zero_grad()
    assert net.scale.grad is None


def test_copies_are_independent() -> None:
    net = Net().eval()
    x = nc.ones((1, 3))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(other(x).numpy(), net(x).numpy())
        other.scale.data = [5.0]
        assert net.scale.item() == 2.0 and other.scale.requires_grad and other.scale.name == "scale"


def test_parameters() -> None:
    p = nn.Parameter([1.0, 2.0])
    assert p.requires_grad and p.value.is_leaf and p.shape == (2,) and p.T if p.ndim == 2 else True
    p.data = p.data * 3
    assert p.tolist() == [3.0, 6.0]
    with pytest.raises(nc.DTypeError, match="Parameter"):
        nn.Parameter([1, 2])
    with pytest.raises(nc.ShapeError, match="the value must have type"):
        p.assign(nc.ones(3))
    assert {p: 1}[p] == 1 and p in [p, nn.Buffer(2.0)] and repr(p).startswith("Parameter")


def test_comparisons_of_parameters_are_those_of_their_elements() -> None:
    p, q, b = nn.Parameter([1.0, 2.0]), nn.Parameter([1.0, 3.0]), nn.Buffer([1.0, 3.0])
    assert (p == q).tolist() == (p == b).tolist() == (b == p).tolist() == (p == q.data).tolist() == [True, False]
    assert (p != q).tolist() == (q.data != p).tolist() == [False, True] and (p == 2.0).tolist() == [False, True]
    assert len({p, q, b}) == 3 and {p: 1, q: 2}[q] == 2
    assert (p == None) is False and (p != "text") is True  # noqa: E711
    with pytest.raises(nc.ShapeError, match="any"):
        bool(p == q)


@pytest.mark.parametrize("value", [1.0, 0.0])
def test_compiled_functions_distinguish_equal_parameters(value: float) -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            self.held = (nn.Parameter([value]),)  # a plain attribute
            self.scale = nn.Parameter([value])

        def forward(self, x: nc.Tensor) -> nc.Tensor:
            return x * self.scale + x * self.held[0]

    module = Scale()
    call = nc.jit(lambda x: module(x))
    of_argument = nc.jit(lambda p, x: p * x)
    of_key = nc.jit(lambda d, x: next(iter(d)) * x)
    x = nc.tensor([1.0])
    assert call(x).tolist() == [2 * value]
    one, other = nn.Parameter([value]), nn.Parameter([value])
    for given in (one, other):
        assert of_argument(given, x).tolist() == of_key({given: 0}, x).tolist() == [value]
    module.scale, module.held = one, (other,)
    with nc.no_grad():
        one += 1.0
        other += 2.0
    assert call(x).tolist() == [2 * value + 3.0]
    assert of_argument(one, x).tolist() == of_key({one: 0}, x).tolist() == [value + 1.0]
    assert of_argument(other, x).tolist() == of_key({other: 0}, x).tolist() == [value + 2.0]


def test_as_text() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.GELU(), nn.Dropout(0.1)))
    assert repr(net) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): Sequential(\n"
        "    (0): GELU(approximate='none')\n    (1): Dropout(p=0.1)\n  )\n)"
    )


def test_the_error_of_a_module_without_forward_says_what_to_write() -> None:
    with pytest.raises(nc.ArgumentError, match=r"(?s)`forward` is required.*def forward"):
        nn.Module()(1)


# ---- trees and compiled functions


def test_modules_are_trees_of_their_variables() -> None:
    net = Net()
    leaves, structure = tree.flatten(net)
    assert {id(v) for v in leaves} == {id(v) for v in (*net.parameters(), *net.buffers())}
    again = tree.unflatten(structure, leaves)
    assert type(again) is Net and again.scale is net.scale and again.power == 1
    assert tree.flatten(net)[1] == structure
    net.power = 2
    assert tree.flatten(net)[1] != structure


def test_gradients_of_a_model_as_an_argument() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = nc.tensor(np.float32([[1, 2, 3], [0, 1, -1]]))

    def loss(model: nn.Module, x: nc.Tensor) -> nc.Tensor:
        return (model(x) ** 2).mean()

    value, gradients = nc.value_and_grad(loss)(net, x)
    out = loss(net, x)
    out.backward()
    assert value.item() == out.item() and isinstance(gradients, nn.Sequential)
    for a, b in zip(net.children(), gradients.children(), strict=True):
        for name in vars(a):
            if isinstance(getattr(a, name), nn.Parameter):
                np.testing.assert_array_equal(getattr(b, name).numpy(), getattr(a, name).grad.numpy())


def test_compiled_calls_notice_modes_and_plain_attributes() -> None:
    net = Net().eval()
    f = nc.jit(lambda x: net(x))
    x = nc.tensor(np.float32([[1, 2, 3], [4, 5, 7]]))
    np.testing.assert_array_equal(f(x).numpy(), net(x).numpy())
    net.power = 2
    np.testing.assert_array_equal(f(x).numpy(), net(x).numpy())
    net.power = 1
    f(x)
    assert len(f.concrete_functions) == 2
    net.train()
    f(x)
    assert net.norm.num_batches_tracked.item() == 1
    net.eval()
    f(x)
    assert len(f.concrete_functions) == 3
    net.scale = nn.Parameter([7.0])
    np.testing.assert_array_equal(f(x).numpy(), net(x).numpy())


def test_a_compiled_training_step_has_the_eager_bits() -> None:
    def train(compiled: bool) -> list[float]:
        nc.random.seed(5)
        net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 3))
        opt = optim.AdamW(net.parameters(), lr=0.01)

        def step(x: nc.Tensor, y: nc.Tensor) -> nc.Tensor:
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optim.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            return loss

        run = nc.jit(step) if compiled else step
        rng = np.random.default_rng(0)
        x, y = nc.tensor(rng.normal(size=(32, 6)).astype("f")), nc.tensor(rng.integers(0, 3, 32))
        losses = [run(x, y).item() for _ in range(12)]
        if compiled:
            assert len(run.concrete_functions) == 1  # type: ignore[attr-defined]
        return [*losses, *(float(p.sum()) for p in net.parameters()), *(float(b.sum()) for b in net.buffers())]

    eager, compiled = train(False), train(True)
    assert eager[11] < eager[0]
    assert eager == compiled


def test_hooks() -> None:
    net = nn.Linear(2, 2)
    x = nc.ones((1, 2))
    plain = net(x).numpy()
    before = net.register_forward_pre_hook(lambda module, args: args[0] * 2)
    seen: list[tuple[int, ...]] = []
    after = net.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    doubled = nn.Linear(2, 2)
    doubled.load_state_dict(net.state_dict())
    np.testing.assert_array_equal(net(x).numpy(), doubled(x * 2).numpy())
    assert seen == [(1, 2)]
    f = nc.jit(lambda x: net(x))
    np.testing.assert_array_equal(f(x).numpy(), net(x).numpy())
    before.remove()
    after.remove()
    np.testing.assert_array_equal(f(x).numpy(), plain)
    assert len(f.concrete_functions) == 2 and not net._hooks
    net.register_forward_pre_hook(lambda module, args, kwargs: ((kwargs["x"],), {}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, kwargs, result: result + 1, with_kwargs=True)
    np.testing.assert_array_equal(net(x=x).numpy(), plain + 1)


def test_parts_by_name() -> None:
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_submodule("") is net
    assert net.get_parameter("first.bias") is net.first.bias and net.get_buffer("norm.running_var") is not None
    for ask, name in ((net.get_submodule, "rest.7"), (net.get_parameter, "first.gain"), (net.get_buffer, "first.bias")):
        with pytest.raises(nc.ArgumentError, match=name):
            ask(name)
    net.register_parameter("gain", nn.Parameter(1.0))
    net.add_module("last", nn.ReLU())
    assert "gain" in net.state_dict() and isinstance(net.last, nn.ReLU)
    assert net.half().gain.dtype is nc.float16 and net.bfloat16().gain.dtype is nc.bfloat16
    assert net.float().gain.dtype is nc.float32 and net.load_state_dict(net.state_dict()).missing_keys == []


class Foreign:
    """A tensor of a library that does not export bfloat16 to NumPy."""

    def __init__(self, values: Any, dtype: str = "torch.bfloat16") -> None:
        self.values, self.dtype = np.asarray(values, np.float32), dtype

    def detach(self) -> Foreign:
        return self

    def cpu(self) -> Foreign:
        return self

    def float(self) -> Foreign:
        return Foreign(self.values, "torch.float32")

    def numpy(self) -> np.ndarray:
        if self.dtype != "torch.float32":
            raise TypeError("Got unsupported ScalarType")
        return self.values


def test_bfloat16_tensors_of_other_libraries_are_accepted() -> None:
    layer = nn.Linear(2, 1).bfloat16()
    layer.load_state_dict({"weight": Foreign([[1.5, -2.25]]), "bias": Foreign([3.0])})
    assert layer.weight.dtype is nc.bfloat16 and layer.weight.astype("float32").tolist() == [[1.5, -2.25]]
    with pytest.raises(nc.DTypeError, match=r"float8.*convert it"):
        layer.load_state_dict({"weight": Foreign([[1.0, 2.0]]), "bias": Foreign([1.0], "torch.float8_e5m2")})
    assert layer.weight.astype("float32").tolist() == [[1.5, -2.25]]


@pytest.mark.parametrize(
    "state",
    [
        None,
        5,
        "weights.safetensors",
        Path("weights.safetensors"),
        [("weight", 1)],
        {"weight": "x", "bias": None},
        {"weight": [[]], "bias": {}},
        {"weight": [[10**400] * 2], "bias": [0.0]},
    ],
    ids=str,
)
def test_objects_that_are_not_state_dicts_are_refused(state: Any) -> None:
    model = nn.Linear(2, 1)
    before = {k: v.tolist() for k, v in model.state_dict().items()}
    with pytest.raises(nc.Error, match=r"required|must"):
        model.load_state_dict(state)
    assert {k: v.tolist() for k, v in model.state_dict().items()} == before


def test_a_state_with_two_values_of_a_shared_parameter_is_refused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.inward, self.outward = nn.Embedding(3, 2), nn.Linear(2, 3, bias=False)
            self.outward.weight = self.inward.weight

        def forward(self, x: Any) -> Any:
            return self.outward(self.inward(x))

    model = Tied()
    before, state = model.inward.weight.numpy().copy(), dict(model.state_dict())
    assert list(state) == ["inward.weight", "outward.weight"]
    state["inward.weight"] = nc.ones((3, 2))
    with pytest.raises(nc.ArgumentError, match=r"inward\.weight and outward\.weight are one parameter and got two"):
        model.load_state_dict(state)
    assert np.array_equal(model.inward.weight.numpy(), before)
    state["outward.weight"] = np.ones((3, 2))
    model.load_state_dict(state)
    assert model.outward.weight.tolist() == np.ones((3, 2)).tolist()
    model.load_state_dict({"outward.weight": nc.zeros((3, 2))}, strict=False)
    assert model.inward.weight.tolist() == np.zeros((3, 2)).tolist()
