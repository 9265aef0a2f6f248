"""Programs with a planted fault: the line that ends with `# fault`, and what the report must say of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import nacre as nc
from nacre import nn, optim

F = nn.functional


class Broken(NamedTuple):
    """A program, the function that makes its arguments, and the expected report."""

    run: Callable[..., Any]
    kind: str
    operation: str
    module: str
    backward: bool
    rounds: tuple[int, ...]
    given: Callable[[], Any] | None

    def program(self) -> Callable[[], Any]:
        """The program without arguments: modules are made outside of it."""
        return self.run if self.given is None else partial(self.run, self.given())

    @property
    def line(self) -> int:
        """The number of the line with the fault."""
        source = self.run if self.module == "" else CLASSES[self.module.split(".")[0].split(" ")[0]]
        lines, first = inspect.getsourcelines(source)
        return first + next(k for k, text in enumerate(lines) if text.rstrip().endswith("# fault"))


BROKEN: dict[str, Broken] = {}
CLASSES: dict[str, type] = {}


def broken(
    kind: str,
    operation: str,
    module: str = "",
    *,
    backward: bool = False,
    rounds: tuple[int, ...] = (),
    given: Callable[[], Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a program."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        BROKEN[run.__name__] = Broken(run, kind, operation, module, backward, rounds, given)
        return run

    return register


def model(cls: type) -> Any:
    """A class of modules whose `forward` has the fault."""
    CLASSES[cls.__name__] = cls
    return cls


def leaf(*numbers: float) -> Any:
    """A tensor that requires a gradient."""
    return nn.Parameter(nc.tensor(numbers))


# ---- divisions by zero, forward


@broken("division", "log")
def log_of_zero() -> Any:
    p = nc.tensor([0.5, 0.0, 0.5])
    return (p * nc.log(p)).sum()  # fault


@broken("division", "div")
def mean_of_nothing() -> Any:
    mask = nc.zeros(5)
    total = (nc.arange(5.0) * mask).sum()
    return total / mask.sum()  # fault


@broken("division", "div")
def normalised_zero_vector() -> Any:
    v = nc.zeros((3, 4))
    length = nc.sqrt((v * v).sum(axis=1, keepdims=True))
    return v / length  # fault


@broken("division", "rsqrt")
def rsqrt_of_zero() -> Any:
    variance = nc.tensor([1.0, 0.0])
    return nc.rsqrt(variance)  # fault


@broken("division", "pow")
def negative_power_of_zero() -> Any:
    x = nc.tensor([2.0, 0.0])
    return x ** nc.tensor([-1.5, -0.5])  # fault


@broken("division", "log1p")
def log1p_of_minus_one() -> Any:
    x = nc.tensor([-1.0, 0.0])
    return nc.log1p(x)  # fault


@broken("division", "atanh")
def atanh_of_one() -> Any:
    x = nc.tensor([0.5, 1.0])
    return nc.atanh(x)  # fault


@broken("division", "log2")
def bits_of_zero() -> Any:
    p = F.one_hot(nc.tensor([0, 1]), 2).astype(nc.float32)
    return -nc.log2(p)  # fault


@broken("division", "log10")
def decibels_of_silence() -> Any:
    power = nc.zeros(8)
    return 10 * nc.log10(power)  # fault


@broken("division", "div")
def standardised_constant_column() -> Any:
    x = nc.ones((6, 2)) * nc.tensor([1.0, 3.0])
    centred = x - x.mean(axis=0)
    return centred / nc.std(x, axis=0)  # fault


# ---- NaN, forward


@broken("nan", "sqrt")
def root_of_negative() -> Any:
    x = nc.tensor([4.0, -1e-7])
    return nc.sqrt(x)  # fault


@broken("nan", "log")
def log_of_negative() -> Any:
    x = nc.tensor([1.0, -0.1])
    return nc.log(x + 0.0)  # fault


@broken("nan", "acos")
def angle_of_rounded_cosine() -> Any:
    cosine = nc.tensor([1.0, 1.0000001])
    return nc.acos(cosine)  # fault


@broken("nan", "pow")
def fractional_power_of_negative() -> Any:
    x = nc.tensor([1.0, -8.0])
    return x ** nc.tensor([0.3, 0.3])  # fault


@broken("nan", "sub")
def infinity_minus_infinity() -> Any:
    scores = nc.full((2, 3), -nc.inf)
    shifted = scores - scores.max(axis=1, keepdims=True)  # fault
    return nc.exp(shifted)


@broken("nan", "mul")
def zero_times_infinity() -> Any:
    bias = nc.tensor([0.0, -nc.inf])
    return bias * nc.tensor([1.0, 0.0])  # fault


@broken("nan", "asin")
def asin_out_of_domain() -> Any:
    x = nc.tensor([0.0, 2.0])
    return nc.asin(x)  # fault


@broken("nan", "acosh")
def acosh_out_of_domain() -> Any:
    x = nc.tensor([2.0, 0.5])
    return nc.acosh(x)  # fault


# ---- NaN that came in


@broken("input", "mul")
def nan_in_the_data() -> Any:
    x = nc.tensor([1.0, nc.nan, 2.0])
    return (x * 2).sum()  # fault


@broken("input", "dot")
def nan_in_the_batch() -> Any:
    x, w = nc.tensor([[1.0, nc.nan], [0.0, 1.0]]), nc.ones((2, 3))
    return nc.tanh(x @ w)  # fault


@broken("input", "sum")
def nan_in_a_sum() -> Any:
    x = nc.tensor([1.0, nc.nan])
    return x.sum()  # fault


# ---- overflow, forward


@broken("overflow", "exp")
def softmax_without_shift() -> Any:
    logits = nc.tensor([[1.0, 100.0]])
    e = nc.exp(logits)  # fault
    return e / e.sum(axis=1, keepdims=True)


@broken("overflow", "mul")
def squared_large_numbers() -> Any:
    x = nc.tensor([1e20, 1.0])
    return nc.sqrt((x * x).sum())  # fault


@broken("overflow", "sum")
def sum_of_large_numbers() -> Any:
    x = nc.full((4,), 2e38)
    return x.sum()  # fault


@broken("overflow", "dot")
def product_of_large_matrices() -> Any:
    a = nc.full((3, 3), 1e19)
    return nc.tanh(a @ (a * 10))  # fault


@broken("overflow", "cast")
def cast_to_half() -> Any:
    x = nc.tensor([1.0, 70000.0])
    return x.astype(nc.float16) * 2  # fault


@broken("overflow", "div")
def quotient_by_tiny_number() -> Any:
    x = nc.tensor([1.0, 1e10])
    return x / nc.tensor([1.0, 1e-30])  # fault


@broken("overflow", "cosh")
def cosh_of_large_number() -> Any:
    x = nc.tensor([1.0, 200.0])
    return 1 / nc.cosh(x)  # fault


@broken("overflow", "expm1")
def expm1_of_large_number() -> Any:
    x = nc.tensor([100.0])
    return nc.expm1(x)  # fault


@broken("overflow", "prod")
def product_of_many() -> Any:
    x = nc.full((50,), 10.0)
    return nc.prod(x)  # fault


@broken("overflow", "add")
def sum_of_halves() -> Any:
    x = nc.full((3,), 60000.0, dtype=nc.float16)
    return x + x  # fault


@broken("overflow", "cumsum")
def running_sum() -> Any:
    x = nc.full((5,), 1e38)
    return nc.cumulative_sum(x)  # fault


@broken("overflow", "mul", rounds=(3,))
def growth_in_a_scan() -> Any:
    return nc.scan(lambda c, x: (c * x, c), nc.ones(2), nc.full((9, 2), 1e10))  # fault


@broken("overflow", "mul", rounds=(7,))
def growth_in_a_loop() -> Any:
    return nc.fori_loop(0, 20, lambda k, c: c * 1e5, nc.ones(2))  # fault


@broken("division", "log")
def fault_in_a_branch() -> Any:
    x = nc.zeros(3)
    return nc.cond(x.sum() > -1, lambda x: nc.log(x), lambda x: x, x)  # fault


# ---- underflow, forward


@broken("underflow", "mul")
def product_of_tiny_numbers() -> Any:
    p = nc.full((4,), 1e-30)
    return nc.log(p * p + 1e-20)  # fault


@broken("underflow", "prod")
def likelihood_of_many() -> Any:
    p = nc.full((200,), 1e-3)
    return nc.prod(p)  # fault


@broken("underflow", "cast")
def small_gradient_in_half() -> Any:
    g = nc.full((8,), 1e-9)
    return g.astype(nc.float16)  # fault


@broken("underflow", "div")
def quotient_of_tiny_number() -> Any:
    x = nc.full((3,), 1e-30)
    return x / nc.full((3,), 1e30)  # fault


@broken("underflow", "exp")
def density_far_away() -> Any:
    x = nc.full((5,), 40.0)
    return nc.exp(-x * x)  # fault


@broken("underflow", "mul")
def scaled_half() -> Any:
    x = nc.full((4,), 1e-4, dtype=nc.float16)
    return x * nc.full((4,), 1e-4, dtype=nc.float16)  # fault


# ---- saturation


@broken("saturation", "tanh")
def saturated_tanh() -> Any:
    x = nc.full((4,), 30.0)
    return nc.tanh(x)  # fault


@broken("saturation", "sigmoid")
def saturated_sigmoid() -> Any:
    x = nc.tensor([200.0, -200.0, 100.0])
    return F.sigmoid(x)  # fault


@broken("saturation", "erf")
def saturated_erf() -> Any:
    x = nc.full((2, 2), -9.0)
    return nc.erf(x)  # fault


# ---- backward


@broken("division", "div", backward=True)
def derivative_of_root_at_zero() -> Any:
    x = leaf(0.0, 0.0)
    y = nc.sqrt(x).sum()  # fault
    y.backward()


@broken("division", "div", backward=True)
def derivative_of_a_length() -> Any:
    x = leaf(0.0, 0.0)
    y = nc.sqrt((x * x).sum())  # fault
    y.backward()


@broken("overflow", "mul", backward=True)
def exploding_gradient() -> Any:
    x = leaf(1e-10, 2e-10)
    y = (x * 1e25 * 1e15).sum()  # fault
    y.backward()


@broken("underflow", "mul", backward=True)
def vanishing_gradient() -> Any:
    x = leaf(1e30, 1e30)
    y = (x * 1e-25 * 1e-25).sum()  # fault
    y.backward()


@broken("overflow", "div", backward=True)
def derivative_of_a_reciprocal() -> Any:
    x = leaf(1e-20, 1.0)
    y = (1 / x).sum()  # fault
    y.backward()


@broken("division", "div", backward=True)
def masked_too_late() -> Any:
    x = leaf(0.0, 4.0)
    root = nc.sqrt(x)  # fault
    nc.where(x > 0, root, 0.0).sum().backward()


@broken("division", "div", backward=True)
def gradient_of_a_function() -> Any:
    def length(x: Any) -> Any:
        return nc.sqrt(x.sum())  # fault

    return nc.grad(length)(nc.zeros(3))


# ---- in modules


@model
class Normalise(nn.Module):
    def forward(self, x: Any) -> Any:
        return x / nc.sqrt((x * x).sum(axis=1, keepdims=True))  # fault


@broken("division", "div", "Normalise")
def module_alone() -> Any:
    return Normalise()(nc.zeros((2, 3)))


@model
class Deep(nn.Module):
    def __init__(self) -> None:
        self.blocks = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid())
        self.head = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(x))  # fault


def deep_model(first: float, second: float) -> Any:
    made = Deep()
    made.blocks[0].weight.data = nc.full((4, 3), first)
    made.blocks[2].weight.data = nc.full((4, 4), second)
    return made


@broken("saturation", "tanh", "Deep.blocks[1] (Tanh)", given=lambda: deep_model(1e4, 1.0))
def inner_layer(model: Any) -> Any:
    return model(nc.ones((2, 3)))


@broken("saturation", "sigmoid", "Deep.blocks[3] (Sigmoid)", given=lambda: deep_model(0.1, 1e4))
def later_layer(model: Any) -> Any:
    return model(nc.ones((2, 3)))


@broken("overflow", "dot", "Deep.blocks[0] (Linear)", given=lambda: deep_model(1e30, 1.0))
def inner_product(model: Any) -> Any:
    return model(nc.full((2, 3), 1e20))


@model
class Root(nn.Module):
    def __init__(self) -> None:
        self.gain = nn.Parameter(nc.zeros(3))

    def forward(self, x: Any) -> Any:
        return nc.sqrt(self.gain * x)  # fault


@model
class Outer(nn.Module):
    def __init__(self) -> None:
        self.parts = nn.ModuleList([nn.Identity(), Root()])

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


@broken("division", "div", "Root", backward=True, given=Root)
def module_backward(model: Any) -> Any:
    model(nc.ones((2, 3))).sum().backward()


@broken("division", "div", "Outer.parts[1] (Root)", backward=True, given=Outer)
def inner_module_backward(model: Any) -> Any:
    model(nc.ones((2, 3))).sum().backward()


CLASSES["Outer"] = Root


# ---- in training steps


@broken("overflow", "fma")
def learning_rate_too_large() -> Any:
    w = leaf(1.0, 2.0)
    sgd = optim.SGD([w], lr=1e38)
    (w * w).sum().backward()
    sgd.step()  # fault


def confident() -> Any:
    layer = nn.Linear(3, 2)
    layer.weight.data = nc.full((2, 3), 1.0) * nc.tensor([[200.0], [-200.0]])
    return layer


@broken("division", "log", given=confident)
def cross_entropy_by_hand(layer: Any) -> Any:
    p = F.softmax(layer(nc.ones((4, 3))))
    loss = -(nc.log(p)).mean()  # fault
    loss.backward()


@broken("overflow", "exp")
def variance_from_its_logarithm() -> Any:
    log_variance = leaf(120.0, 0.0)
    kl = (nc.exp(log_variance) - log_variance - 1).sum()  # fault
    kl.backward()
