"""Implausible arguments of loaders, datasets and trainers: counts, positions, samplers and optimisers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nacre as nc
from nacre import data, nn, optim, train

NAN = float("nan")
ROWS = data.TensorDataset(nc.ones((6, 2)), nc.ones((6, 1)))


def loader(**settings: Any) -> data.DataLoader:
    return data.DataLoader(ROWS, batch_size=2, **settings)


def placed(batch: Any) -> None:
    """A loader that is to resume at a batch."""
    held = loader()
    held.load_state_dict({**held.state_dict(), "batch": batch})


def trainer(optimised: nn.Module | None = None, scheduled: nn.Module | None = None) -> train.Trainer:
    model = nn.Linear(2, 1)
    first, second = (optim.SGD((m or model).parameters(), lr=0.1) for m in (optimised, scheduled))
    return train.Trainer(model, first, nn.functional.mse_loss, schedule=optim.StepLR(second, 1), progress=False)


class Lines(data.IterableDataset):
    """Five numbers, one after the other."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


class Stopping(data.Dataset):
    """A dataset whose items raise the StopIteration of their own iterator."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return next(iter(()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((lambda v=v: loader().set_epoch(v), "must be a whole number of 0 or more") for v in ("a", 1.5, NAN, -1)),
        *((lambda v=v: placed(v), "DataLoader.load_state_dict: ") for v in (-1, 7, "x", 1.5)),
        *((lambda v=v: trainer().fit(loader(), epochs=v), "of 1 or more; got") for v in (0, -1, NAN, 1.5)),
        (lambda: trainer(optimised=nn.Linear(2, 1)), "the optimizer must hold parameters of the model"),
        (lambda: trainer(scheduled=nn.Linear(2, 1)), "the schedule's optimizer must hold parameters"),
        (lambda: trainer().fit(loader())["nope"], "no column 'nope'"),
        (lambda: loader(sampler=5), "sampler must be a Sampler or a sequence of item numbers; got 5"),
        (lambda: loader(timeout=float("inf")), "timeout must be finite"), (lambda: ROWS[1:3], "index must be a"),  # type: ignore[index]
        (lambda: Lines().take(-1), "take: count must be a whole number of 0 or more; got -1"),
    ],
)  # fmt: skip
def test_implausible_arguments_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("settings", [{}, {"num_workers": 2}])
def test_an_item_that_stops_an_iteration_is_an_error_of_the_item(settings: Any) -> None:
    with pytest.raises(data.ItemError, match="item 0 of Stopping could not be loaded: StopIteration") as raised:
        list(data.DataLoader(Stopping(), **settings))
    assert isinstance(raised.value.__cause__, StopIteration) and not isinstance(raised.value, StopIteration)
