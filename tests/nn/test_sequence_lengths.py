"""Packed sequences: recurrent networks compute each sequence of a batch with the same bits as alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import nn

LENGTHS = (3, 5, 1)
NETWORKS: dict[str, Callable[[], Any]] = {
    "rnn": lambda: nn.RNN(4, 6),
    "lstm": lambda: nn.LSTM(4, 6, num_layers=2, bidirectional=True),
    "projected": lambda: nn.LSTM(4, 6, proj_size=2, bidirectional=True),
    "gru": lambda: nn.GRU(4, 6, 2, batch_first=True, bidirectional=True),
}


def sequences() -> list[Any]:
    rng = np.random.default_rng(5)
    return [nc.tensor(rng.normal(size=(n, 4)).astype(np.float32)) for n in LENGTHS]


def alone(network: Any, sequence: Any) -> tuple[Any, Any]:
    """The results of a network for one sequence: the output [L, …] and the last states."""
    x = sequence[None] if network.batch_first else sequence[:, None]
    output, last = network(x)
    return output[0] if network.batch_first else output[:, 0], last


def parts(last: Any) -> tuple[Any, ...]:
    return last if isinstance(last, tuple) else (last,)


@pytest.mark.parametrize("name", NETWORKS)
def test_each_sequence_has_the_same_results_as_alone(name: str) -> None:
    network, given = NETWORKS[name](), sequences()
    packed, last = network(nn.pack_sequence(given))
    padded, lengths = nn.pad_packed_sequence(packed)
    assert lengths.tolist() == list(LENGTHS)
    for k, sequence in enumerate(given):
        output, ended = alone(network, sequence)
        np.testing.assert_array_equal(padded[: LENGTHS[k], k].numpy(), output.numpy())
        assert not padded[LENGTHS[k] :, k].numpy().any()
        for found, wanted in zip(parts(last), parts(ended), strict=True):
            np.testing.assert_array_equal(found[:, k].numpy(), wanted[:, 0].numpy())


def test_gradients_are_those_of_the_sequences_alone() -> None:
    network, given = nn.GRU(4, 6, bidirectional=True), sequences()
    padded = nn.pad_sequence(given, padding_value=nc.nan).requires_grad_()  # the padding is not read
    output, last = network(nn.pack_padded_sequence(padded, nc.tensor(LENGTHS)))
    (nn.pad_packed_sequence(output)[0].sum() + last.sum()).backward()
    found = [p.grad.numpy() for p in network.parameters()]
    network.zero_grad()
    for k, sequence in enumerate(given):
        x = sequence.requires_grad_()
        single, ended = network(x[:, None])
        (single.sum() + ended.sum()).backward()
        np.testing.assert_allclose(padded.grad[: LENGTHS[k], k].numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-6)
    for one, p in zip(found, network.parameters(), strict=True):
        np.testing.assert_allclose(one, p.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_one_compiled_function_serves_all_lengths() -> None:
    network = nn.LSTM(4, 6)

    def run(x: Any, lengths: Any) -> Any:
        return nn.pad_packed_sequence(network(nn.pack_padded_sequence(x, lengths))[0])[0]

    compiled, x = nc.jit(run), nn.pad_sequence(sequences())
    for lengths in ((3, 5, 1), (5, 5, 5), (1, 2, 3)):
        held = nc.tensor(lengths)
        np.testing.assert_array_equal(compiled(x, held).numpy(), run(x, held).numpy())
    assert len(compiled.concrete_functions) == 1


def test_packing_and_unpacking() -> None:
    given = sequences()
    for k, found in enumerate(nn.unpack_sequence(nn.pack_sequence(given, enforce_sorted=False))):
        np.testing.assert_array_equal(found.numpy(), given[k].numpy())
    padded, _ = nn.pad_packed_sequence(nn.pack_sequence(given), True, 7.0, total_length=6)
    assert padded.shape == (3, 6, 4) and bool(nc.all(padded[2, 1:] == 7.0))
    assert [s.shape for s in nn.unpad_sequence(padded, LENGTHS, batch_first=True)] == [(n, 4) for n in LENGTHS]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: nn.pack_padded_sequence(nc.ones((3, 2)), [3, 4]), "lengths must be from 1 to 3"),
        (lambda: nn.pack_padded_sequence(nc.ones((3, 2)), [3, 0]), "lengths must be from 1 to 3"),
        (lambda: nn.pack_padded_sequence(nc.ones((3, 2)), [3]), r"lengths must be \[2\]"),
        (lambda: nn.pack_padded_sequence(nc.ones((3, 2)), [3.0, 1.0]), "lengths must be integers"),
        (lambda: nn.pack_padded_sequence(nc.ones(3), [3]), "sequences"),
        (lambda: nn.pad_sequence([]), "at least one sequence"),
        (lambda: nn.pad_sequence([nc.ones((2, 3)), nc.ones((2, 4))]), "one shape apart from the length"),
        (lambda: nn.pad_sequence([nc.ones(2), nc.arange(2)]), "one dtype"),
        (lambda: nn.pad_packed_sequence(nn.pack_sequence([nc.ones(3)]), total_length=2), "must be at least 3"),
        (lambda: nn.GRU(3, 2)(nn.pack_sequence([nc.ones((3, 4))])), "a last axis of 3"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(f: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        f()
