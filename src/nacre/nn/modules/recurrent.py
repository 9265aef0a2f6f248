"""Recurrent networks by `scan`: RNN, LSTM and GRU with layers and directions, and their cells.

A layer projects its whole input at once; the scan over time computes only what depends on the previous state.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from nacre.api.creation import zeros
from nacre.api.manipulation import concat, split, stack
from nacre.api.operands import TensorLike, as_tensor
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn import functional
from nacre.nn.module import Module, Parameter
from nacre.nn.modules.linear_maps import draw_again
from nacre.nn.sequences import PackedSequence, kept, silent
from nacre.transform.control import scan

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
]

State = tuple[Any, ...]  # (h,) or (h, c)


def _tanh_step(given: Any, back: Any, state: State) -> State:
    return (functional.tanh(given + back),)


def _relu_step(given: Any, back: Any, state: State) -> State:
    return (functional.relu(given + back),)


def _lstm_step(given: Any, back: Any, state: State) -> State:
    """Gates i, f, g, o: c' = f · c + i · g, h' = o · tanh(c')."""
    i, f, g, o = split(given + back, sections=4, axis=-1)
    c = functional.sigmoid(f) * state[1] + functional.sigmoid(i) * functional.tanh(g)
    return functional.sigmoid(o) * functional.tanh(c), c


def _gru_step(given: Any, back: Any, state: State) -> State:
    """Gates r, z and the candidate n = tanh(x + r · h): h' = n + z · (h − n)."""
    (xr, xz, xn), (hr, hz, hn) = split(given, sections=3, axis=-1), split(back, sections=3, axis=-1)
    r, z = functional.sigmoid(xr + hr), functional.sigmoid(xz + hz)
    n = functional.tanh(xn + r * hn)
    return (n + z * (state[0] - n),)


_STEPS = {"tanh": _tanh_step, "relu": _relu_step, "lstm": _lstm_step, "gru": _gru_step}


class _Recurrent(Module):
    """The common part of the three kinds: layers, directions, and parameters with PyTorch's names."""

    gates: ClassVar[int] = 1
    cells: ClassVar[int] = 1  # tensors in a state

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        dtype: Any = None,
    ) -> None:
        kind = type(self).__name__
        if hidden_size < 1 or num_layers < 1 or not 0 <= proj_size < hidden_size:
            raise ArgumentError(
                f"{kind}: hidden_size and num_layers must be positive, and proj_size below hidden_size; got "
                f"{hidden_size}, {num_layers}, {proj_size}"
            )
        if not 0.0 <= dropout <= 1.0:
            raise ArgumentError(f"{kind}: dropout must be a probability in [0, 1]; got {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._draw(dtype)

    def _draw(self, dtype: Any) -> None:
        wide = self.gates * self.hidden_size
        out = self.proj_size or self.hidden_size
        for layer in range(self.num_layers):
            size = self.input_size if layer == 0 else out * self.directions
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (wide, size), "weight_hh": (wide, out)}
                shapes |= {"bias_ih": (wide,), "bias_hh": (wide,)} if self.bias else {}
                shapes |= {"weight_hr": (self.proj_size, self.hidden_size)} if self.proj_size else {}
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(zeros(shape, dtype)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again, as when the layer was made."""
        draw_again(1 / math.sqrt(self.hidden_size), *self.parameters(recurse=False))

    @property
    def directions(self) -> int:
        """1, or 2 if sequences are read in both directions."""
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self.directions]

    @property
    def _step(self) -> Any:
        raise NotImplementedError

    def forward(self, input: TensorLike, hx: Any = None) -> Any:
        """[L, N, input_size] (or [N, L, …] with batch_first, or [L, input_size]) → output, last states.

        `hx` holds the first states, zeros by default.  The output [L, N, directions · hidden] holds the states of the
        last layer.  The last states are those of all layers and directions, [layers · directions, N, hidden].  A
        `PackedSequence` gives a `PackedSequence`; the last states are then those at the ends of the sequences.
        """
        if isinstance(input, PackedSequence):
            found, ended = self._padded(input.padded, hx, input.inside[..., None])
            return PackedSequence(found, input.lengths), ended
        return self._padded(input, hx, None)

    def _padded(self, input: TensorLike, hx: Any, inside: Any) -> Any:
        """`forward` for sequences of one length, or for sequences whose ends `inside` [L, N, 1] marks."""
        x: Any = as_tensor(input)
        single = x.ndim == 2
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: the input must have rank 2 or 3 and a last axis of {self.input_size}; got "
                f"{x.type}"
            )
        if inside is not None:
            x = silent(inside, x)  # for any padding: NaN times a zero gradient would be NaN
        turned = self.batch_first and not single and inside is None
        x = x[:, None] if single else x.permute(1, 0, 2) if turned else x
        states = self._states(hx, x, single)
        last: list[State] = []
        for layer in range(self.num_layers):
            ways: list[Any] = []
            for way, suffix in enumerate(self._suffixes(layer)):
                first = tuple(s[layer * self.directions + way] for s in states)
                ends, outputs = self._run(x, first, suffix, way == 1, inside)
                last.append(ends)
                ways.append(outputs)
            x = ways[0] if len(ways) == 1 else concat(ways, axis=2)
            if self.dropout and layer + 1 < self.num_layers:
                x = functional.dropout(x, self.dropout, self.training)
        ended = tuple(stack([ends[k] for ends in last]) for k in range(self.cells))
        if single:
            x, ended = x[:, 0], tuple(s[:, 0] for s in ended)
        elif turned:
            x = x.permute(1, 0, 2)
        return x, ended[0] if self.cells == 1 else ended

    def _states(self, hx: Any, x: Any, single: bool) -> State:
        """The states before the first step, with a batch axis."""
        rows = self.num_layers * self.directions
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: self.cells]
        shapes = [(rows, x.shape[1], n) for n in sizes]
        if hx is None:
            return tuple(zeros(shape, x.dtype) for shape in shapes)
        given: list[Any] = [as_tensor(h) for h in (hx if self.cells > 1 else (hx,))]
        given = [h[:, None] if single else h for h in given]
        if [h.shape for h in given] != shapes:
            raise ShapeError(
                f"{type(self).__name__}: states must have shape {' and '.join(str(list(s)) for s in shapes)}; got "
                f"{', '.join(str(list(h.shape)) for h in given)}"
            )
        return tuple(given)

    def _run(self, x: Any, first: State, suffix: str, reverse: bool, inside: Any) -> tuple[State, Any]:
        """One layer in one direction: its last state and its outputs."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        held: list[Any] = [getattr(self, name + suffix, None) for name in names]
        values: list[Any] = [None if p is None else as_tensor(p) for p in held]
        w_in, w_back, b_in, b_back = values
        projection = as_tensor(getattr(self, "weight_hr" + suffix)) if self.proj_size else None
        step = self._step

        def turn(state: State, given: Any) -> tuple[State, Any]:
            """One time step."""
            new = step(given, functional.linear(state[0], w_back, b_back), state)
            if projection is not None:
                new = (functional.linear(new[0], projection), *new[1:])
            return new, new[0]

        def turn_inside(state: State, given: Any) -> tuple[State, Any]:
            """One time step, at which some sequences have ended or not yet begun."""
            new, output = turn(state, given[0])
            return kept(given[1], new, state), silent(given[1], output)

        projected = functional.linear(x, w_in, b_in)
        if inside is None:
            return scan(turn, first, projected, reverse=reverse)
        return scan(turn_inside, first, (projected, inside), reverse=reverse)

    def extra_repr(self) -> str:
        """Sizes, and settings that differ from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        for name, default in (defaults | {"proj_size": 0}).items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(_Recurrent):
    """h' = tanh(W_ih · x + b_ih + W_hh · h + b_hh), or with relu in the place of tanh.

    [L, N, input_size], or [N, L, input_size] with batch_first → output [L, N, directions · hidden_size], last state
    [layers · directions, N, hidden_size].  Raises ArgumentError for settings out of range, ShapeError for inputs that
    do not fit.

    >>> output, last = nn.RNN(3, 5, num_layers=2)(nc.ones((7, 2, 3)))
    >>> output.shape, last.shape
    ((7, 2, 5), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        _check_nonlinearity("RNN", nonlinearity)
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype=dtype)

    @property
    def _step(self) -> Any:
        return _STEPS[self.nonlinearity]


def _check_nonlinearity(kind: str, nonlinearity: str) -> None:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f'{kind}: nonlinearity must be "tanh" or "relu"; got {nonlinearity!r}')


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997); `proj_size` projects the hidden state.

    Shapes and errors are those of `RNN`; the state is a pair (h, c).

    >>> output, (h, c) = nn.LSTM(3, 5, bidirectional=True)(nc.ones((7, 2, 3)))
    >>> output.shape, h.shape, c.shape
    ((7, 2, 10), (2, 2, 5), (2, 2, 5))
    """

    gates, cells = 4, 2

    @property
    def _step(self) -> Any:
        return _lstm_step


class GRU(_Recurrent):
    """The gated recurrent unit (Cho et al. 2014).

    Shapes and errors are those of `RNN`.

    >>> output, last = nn.GRU(3, 5, batch_first=True)(nc.ones((2, 7, 3)))
    >>> output.shape, last.shape
    ((2, 7, 5), (1, 2, 5))
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype=dtype)

    @property
    def _step(self) -> Any:
        return _gru_step


# ---- cells


class _Cell(Module):
    """One step of a recurrent network, for [N, input_size] or [input_size]."""

    gates: ClassVar[int] = 1
    cells: ClassVar[int] = 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None) -> None:
        if hidden_size < 1:
            raise ArgumentError(f"{type(self).__name__}: hidden_size must be positive; got {hidden_size}")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        wide = self.gates * hidden_size
        self.weight_ih = Parameter(zeros((wide, input_size), dtype))
        self.weight_hh = Parameter(zeros((wide, hidden_size), dtype))
        self.bias_ih = Parameter(zeros(wide, dtype)) if bias else None
        self.bias_hh = Parameter(zeros(wide, dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again, as when the layer was made."""
        draw_again(1 / math.sqrt(self.hidden_size), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    @property
    def _step(self) -> Any:
        raise NotImplementedError

    def forward(self, input: TensorLike, hx: Any = None) -> Any:
        """[N, input_size] and the state [N, hidden_size] (zeros by default) → the next state."""
        x: Any = as_tensor(input)
        if hx is None:
            hx = (zeros((*x.shape[:-1], self.hidden_size), x.dtype),) * self.cells
        elif self.cells == 1:
            hx = (as_tensor(hx),)
        back = functional.linear(hx[0], self.weight_hh, self.bias_hh)
        new = self._step(functional.linear(x, self.weight_ih, self.bias_ih), back, tuple(hx))
        return new[0] if self.cells == 1 else new

    def extra_repr(self) -> str:
        """Sizes and bias."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of `RNN`, for inputs [N, input_size] and a state [N, hidden_size].

    >>> nn.RNNCell(3, 5)(nc.ones((2, 3))).shape
    (2, 5)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: Any = None
    ) -> None:
        _check_nonlinearity("RNNCell", nonlinearity)
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, dtype)

    @property
    def _step(self) -> Any:
        return _STEPS[self.nonlinearity]


class LSTMCell(_Cell):
    """One step of `LSTM`, for inputs [N, input_size] and a state (h, c), each [N, hidden_size].

    >>> h, c = nn.LSTMCell(3, 5)(nc.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates, cells = 4, 2

    @property
    def _step(self) -> Any:
        return _lstm_step


class GRUCell(_Cell):
    """One step of `GRU`, for inputs [N, input_size] and a state [N, hidden_size].

    >>> nn.GRUCell(3, 5)(nc.ones((2, 3))).shape
    (2, 5)
    """

    gates = 3

    @property
    def _step(self) -> Any:
        return _gru_step
