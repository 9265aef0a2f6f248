"""The trainer gives the bits of a loop written by hand; interruptions; errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import data, nn, optim, train
from nacre.base.errors import ArgumentError, ShapeError, StateError
from train import training  # type: ignore[import-not-found]

cross_entropy = nn.functional.cross_entropy


def network() -> nn.Sequential:
    nc.random.seed(5)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def loader(count: int = 24, size: int = 8, **options: Any) -> data.DataLoader:
    return data.DataLoader(training.rows(count, 4), batch_size=size, **{"shuffle": True, "seed": 2, **options})


def weights(model: nn.Module) -> dict[str, bytes]:
    return {k: v.numpy().tobytes() for k, v in model.state_dict().items()}


def trained(epochs: int = 2, batches: Any = None, **options: Any) -> train.Trainer:
    model = network()
    chosen = {"loss": cross_entropy, "progress": False, **options}
    made = chosen.pop("optimizer", lambda p: optim.AdamW(p, lr=0.02))(model.parameters())
    schedule: Callable[..., Any] = chosen.pop("scheduled", lambda o: [])
    trainer = train.Trainer(model, made, schedule=schedule(made), **chosen)
    trainer.fit(batches or loader(), chosen.pop("validation", None), epochs)
    return trainer


def by_hand(batches: data.DataLoader, group: int, between: Callable[[Any], object] = lambda p: None) -> nn.Module:
    """Two epochs of AdamW, an update for each group of batches of one size."""
    model = network()
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    for epoch in range(2):
        batches.set_epoch(epoch)
        held = list(batches)
        for k in range(0, len(held), group):
            for x, y in held[k : k + group]:
                cross_entropy(model(x), y).backward()
            for p in model.parameters():
                p.grad = p.grad / len(held[k : k + group])
            between(list(model.parameters()))
            optimizer.step()
            optimizer.zero_grad()
    return model


@pytest.mark.parametrize("compiled", [True, False])
def test_every_part_has_the_bits_of_a_loop_by_hand(compiled: bool) -> None:
    assert weights(trained(jit=compiled).model) == weights(by_hand(loader(), 1))
    clipped = trained(jit=compiled, clip_norm=0.3)
    assert weights(clipped.model) == weights(by_hand(loader(), 1, lambda p: optim.clip_grad_norm_(p, 0.3)))
    assert all(norm > 0 for norm in clipped.history["gradient_norm"])
    limited = trained(jit=compiled, clip_value=0.01)
    assert weights(limited.model) == weights(by_hand(loader(), 1, lambda p: optim.clip_grad_value_(p, 0.01)))
    assert weights(limited.model) != weights(clipped.model)


@pytest.mark.parametrize("compiled", [True, False])
def test_accumulation_has_the_bits_of_a_loop_by_hand_and_closes_short_groups(compiled: bool) -> None:
    gathered = trained(jit=compiled, accumulate=2)  # three batches an epoch: a whole group and a short one
    assert gathered.updates == 4
    assert weights(gathered.model) == weights(by_hand(loader(), 2))


def test_accumulation_weighs_batches_by_their_examples() -> None:
    whole = trained(batches=loader(24, 24, shuffle=False), accumulate=1)
    parts = trained(batches=loader(24, 10, shuffle=False), accumulate=3)  # 10, 10 and 4 examples
    assert whole.updates == parts.updates == 2
    for name, value in whole.model.state_dict().items():
        np.testing.assert_allclose(parts.model.state_dict()[name].numpy(), value.numpy(), rtol=2e-4, atol=1e-6)
    assert whole.history["loss"][0] == pytest.approx(parts.history["loss"][0], rel=1e-6)


def test_everything_at_once_is_the_same_eager_and_compiled() -> None:
    found: list[Any] = []
    for compiled in (True, False):
        trainer, batches, validation = training.build(None, jit=compiled)
        trainer.fit(batches, validation, 2)
        found.append((weights(trainer.model), trainer.history.rows))
    assert found[0] == found[1]


def test_schedules_step_by_epoch_or_update_and_plateaus_by_the_watched_value() -> None:
    def halved(optimizer: Any) -> Any:
        return optim.ExponentialLR(optimizer, 0.5)

    assert trained(3, scheduled=halved).history["lr"] == [0.02, 0.01, 0.005]
    by_update = trained(1, scheduled=halved, schedule_every="step")
    assert by_update.history["lr"] == [0.02 / 4] and by_update.optimizer.param_groups[0]["lr"] == 0.02 / 8
    assert trained(3, scheduled=halved, validate_every=2).history["lr"] == [0.02, 0.01, 0.005]

    def plateau(optimizer: Any) -> Any:
        return optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=10.0, threshold_mode="abs")

    assert trained(3, scheduled=plateau, monitor="loss").history["lr"] == [0.02, 0.02, 0.01]


@pytest.mark.parametrize("kept", [True, False])
def test_early_stopping_restores_the_best_weights(kept: bool, tmp_path: Path) -> None:
    model, seen = network(), []
    values = iter([3.0, 2.0, 2.5, 2.5, 1.0])

    def evaluate(x: Any, y: Any) -> float:
        seen.append(weights(model))
        return next(values)

    stopping = train.EarlyStopping(patience=2, restore_best=True)
    trainer = train.Trainer(
        model,
        optim.SGD(model.parameters(), lr=0.5),
        cross_entropy,
        evaluate=evaluate,
        jit=False,
        early_stopping=stopping,
        out=tmp_path if kept else None,
        progress=False,
    )
    history = trainer.fit(loader(), loader(8), epochs=9)
    assert history["valid_loss"] == [3.0, 2.0, 2.5, 2.5] and trainer.stopped
    assert weights(model) == seen[1] != seen[3]


def test_a_custom_step() -> None:
    model = network()
    optimizer = optim.AdamW(model.parameters(), lr=0.02)

    def step(x: Any, y: Any) -> Any:
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return {"loss": loss, "double": loss * 2}

    trainer = train.Trainer(model, optimizer, step=step, progress=False)
    history = trainer.fit(loader(), epochs=2)
    assert weights(model) == weights(by_hand(loader(), 1))
    assert history["double"] == [2 * loss for loss in history["loss"]]
    with pytest.raises(ArgumentError, match="evaluate="):
        trainer.fit(loader(), loader(), epochs=3)


def test_batches_of_another_form() -> None:
    held = [{"input": x, "wanted": y} for x, y in loader(shuffle=False)]

    def forward(model: Any, batch: Any) -> Any:
        return model(batch["input"]), batch["wanted"]

    plain = trained(batches=loader(shuffle=False))
    assert weights(trained(batches=held, forward=forward).model) == weights(plain.model)


def test_validation_leaves_each_modules_mode_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model[1].eval()
    frozen = model[1].running_mean.numpy().copy()
    trainer = train.Trainer(model, optim.SGD(model.parameters(), lr=0.1), cross_entropy, progress=False)
    trainer.fit(loader(), loader(), epochs=2)
    assert [m.training for m in model] == [True, False, True]
    np.testing.assert_array_equal(model[1].running_mean.numpy(), frozen)


def test_fit_continues_where_it_stopped() -> None:
    twice = trained(1)
    assert twice.fit(loader(), epochs=2)["epoch"] == [1, 2]
    assert weights(twice.model) == weights(trained(2).model)


# ---- interruptions


class Nudge:
    """A writer that sends this process a signal when it sees the row of a step."""

    def __init__(self, step: int, number: int = signal.SIGINT) -> None:
        self.step, self.number = step, number

    def begin(self, position: Any) -> None: ...

    def write(self, kind: str, row: Any) -> None:
        if kind == "step" and row["step"] == self.step:
            os.kill(os.getpid(), self.number)

    def position(self) -> Any:
        return None

    def close(self) -> None: ...


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}])
def test_an_interrupted_training_saves_and_resumes_to_the_same_bytes(
    tmp_path: Path, number: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # the report's date

    def run(out: Path, epochs: int, step: int, resume: bool = False) -> None:
        model = network()
        trainer = train.Trainer(
            model,
            optim.AdamW(model.parameters()),
            cross_entropy,
            out=out,
            progress=False,
            keep=1,
            log_every=1,
            writers=[Nudge(step, number)],
            name="nudged",
            **options,
        )
        trainer.fit(loader(), loader(8), epochs, resume=resume)

    run(tmp_path / "whole", 3, 0)
    before = signal.getsignal(number)
    for step in (2, 4):
        with pytest.raises(train.Interrupted, match=f"after update {step} .*resume=True"):
            run(tmp_path / "parts", 3, step, resume=True)
        assert signal.getsignal(number) is before
    run(tmp_path / "parts", 3, 0, resume=True)
    assert training.digest(tmp_path / "whole") == training.digest(tmp_path / "parts")


class Signalling:
    """Validation batches, during which a signal arrives, once."""

    def __init__(self) -> None:
        self.left = 1

    def __iter__(self) -> Iterator[Any]:
        for batch in loader(16):
            if self.left:
                self.left = 0
                os.kill(os.getpid(), signal.SIGINT)
            yield batch


def test_an_interruption_while_validating(tmp_path: Path) -> None:
    def run(out: Path, validation: Any) -> train.Trainer:
        model = network()
        trainer = train.Trainer(model, optim.AdamW(model.parameters()), cross_entropy, out=out, progress=False)
        trainer.fit(loader(), validation, 2, resume=True)
        return trainer

    with pytest.raises(train.Interrupted):
        run(tmp_path / "out", Signalling())
    assert train.Checkpoints(tmp_path / "out" / "checkpoints").latest().state["passed"]  # type: ignore[union-attr]
    resumed, whole = run(tmp_path / "out", loader(16)), run(tmp_path / "whole", loader(16))
    assert weights(resumed.model) == weights(whole.model) and resumed.history.rows == whole.history.rows


class Stream(data.IterableDataset):
    """Rows, one after the other."""

    def __iter__(self) -> Iterator[Any]:
        return iter(training.rows(40, 6))


@pytest.mark.parametrize("kind", ["list", "stream", "workers"])
def test_every_kind_of_loader_is_resumed_in_its_epoch(tmp_path: Path, kind: str) -> None:
    def batches() -> Any:
        if kind == "list":
            return list(loader())
        if kind == "stream":
            return data.DataLoader(Stream().shuffled(8, 1), batch_size=8)
        return loader(num_workers=2)

    def run(out: Path, step: int = 0) -> nn.Module:
        model = network()
        trainer = train.Trainer(
            model,
            optim.AdamW(model.parameters()),
            cross_entropy,
            out=out,
            progress=False,
            log_every=1,
            writers=[Nudge(step)],
        )
        trainer.fit(batches(), epochs=2, resume=True)
        return model

    with pytest.raises(train.Interrupted):
        run(tmp_path / "parts", 2)
    assert weights(run(tmp_path / "parts")) == weights(run(tmp_path / "whole"))


# ---- errors


def test_a_loss_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"loss must be finite; got nan in update 2"):
        scale = iter([1.0, float("nan")])
        trained(loss=lambda p, y: cross_entropy(p, y) * next(scale), jit=False, out=tmp_path)


def cornered(p: Any, y: Any) -> Any:
    """A finite loss with a NaN gradient."""
    zero = p * 0.0
    return cross_entropy(p, y) + nc.mean(nc.where(zero > 0.0, nc.sqrt(zero), 0.0))


@pytest.mark.parametrize("at", [1, 5])
@pytest.mark.parametrize("save_every", [None, 1])
def test_a_nan_gradient_leaves_the_valid_checkpoints(tmp_path: Path, at: int, save_every: int | None) -> None:
    def run(cornering: int, **options: Any) -> train.Trainer:
        count = iter(range(1, 100))
        model = network()
        trainer = train.Trainer(
            model,
            optim.AdamW(model.parameters()),
            progress=False,
            jit=False,
            out=tmp_path / "out",
            loss=lambda p, y: (cornered if next(count) == cornering else cross_entropy)(p, y),
            save_every=save_every,
            **options,
        )
        trainer.fit(loader(), epochs=2, resume=True)
        return trainer

    kept = train.Checkpoints(tmp_path / "out" / "checkpoints")
    with pytest.raises(StateError, match=f"must be finite; .* (after update {at}|in update {at + 1})") as told:
        run(at)
    names = [path.name for path in kept.paths()]
    last = at - 1 if save_every else at // 3 * 3
    assert (names[-1] if names else None) == (f"step-{last:08}" if last else None)
    assert str(told.value).endswith(f"sound checkpoint is {kept.paths()[-1]}" if names else "nothing was saved")
    for name in names:
        assert all(np.isfinite(v.numpy()).all() for v in train.read(kept.folder / name).model.values())
    assert run(0).epochs == 2


def test_a_nan_gradient_in_the_last_update_is_reported_without_a_folder() -> None:
    count, model = iter(range(1, 100)), network()
    trainer = train.Trainer(
        model,
        optim.AdamW(model.parameters()),
        progress=False,
        jit=False,
        loss=lambda p, y: (cornered if next(count) == 3 else cross_entropy)(p, y),
    )
    with pytest.raises(StateError, match=r"weights must be finite; .* after update 3, from a gradient"):
        trainer.fit(loader(), epochs=1)


def test_weights_that_are_not_finite_are_not_saved_by_hand_either(tmp_path: Path) -> None:
    trainer = trained(1, out=tmp_path)
    p = next(trainer.model.parameters())
    p.assign(p.value + np.inf)
    with pytest.raises(StateError, match=r"weights of '0\.weight' .*sound checkpoint is .*step-00000003"):
        trainer.save()


def test_validation_now_and_then_and_from_a_later_fit_on_is_logged(tmp_path: Path) -> None:
    def csv_rows(name: str) -> list[list[str]]:
        return [line.split(",") for line in (tmp_path / name / "epochs.csv").read_text().splitlines()]

    model = network()
    trainer = train.Trainer(
        model,
        optim.SGD(model.parameters(), lr=0.1),
        cross_entropy,
        out=tmp_path / "often",
        validate_every=2,
        progress=False,
    )
    history = trainer.fit(loader(), loader(8), epochs=5)
    head, *rows = csv_rows("often")
    assert head == ["epoch", "step", "loss", "lr", "valid_loss"]
    assert [row[4] for row in rows] == ["" if v is None else str(v) for v in history["valid_loss"]]
    assert [v is None for v in history["valid_loss"]] == [True, False, True, False, True]

    model = network()
    trainer = train.Trainer(
        model, optim.SGD(model.parameters(), lr=0.1), cross_entropy, out=tmp_path / "later", progress=False
    )
    trainer.fit(loader(), epochs=1)
    history = trainer.fit(loader(), loader(8), epochs=2)
    head, *rows = csv_rows("later")
    assert head[-1] == "valid_loss" and [row[-1] for row in rows] == ["", str(history[-1]["valid_loss"])]


@pytest.mark.parametrize("step", [0, 4, 8])
def test_a_resumed_log_with_a_later_column_has_the_same_bytes(tmp_path: Path, step: int) -> None:
    def run(out: Path, step: int) -> None:
        model = network()
        trainer = train.Trainer(
            model,
            optim.AdamW(model.parameters()),
            cross_entropy,
            out=out,
            progress=False,
            keep=9,
            log_every=1,
            validate_every=2,
            writers=[Nudge(step)],
        )
        trainer.fit(loader(), loader(8), 4, resume=True)

    run(tmp_path / "whole", 0)
    if step:
        with pytest.raises(train.Interrupted):
            run(tmp_path / "parts", step)
    run(tmp_path / "parts", 0)
    for name in ("epochs.csv", "log.jsonl", "steps.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


@pytest.mark.parametrize("every", ["epoch", "step"])
def test_several_schedules_multiply_and_a_rate_set_by_hand_stays(every: str) -> None:
    def both(o: Any) -> Any:
        return [optim.LinearLR(o, 0.5, total_iters=2), optim.ExponentialLR(o, 0.5)]

    rates = trained(1 if every == "step" else 4, scheduled=both, schedule_every=every).optimizer.param_groups[0]["lr"]
    assert rates == pytest.approx(0.02 * 0.5 ** (3 if every == "step" else 4))

    def cosine_and_plateau(o: Any) -> Any:
        return [
            optim.CosineAnnealingLR(o, 4),
            optim.ReduceLROnPlateau(o, factor=0.5, patience=0, threshold=9.0, threshold_mode="abs"),
        ]

    shape = [0.5 * (1 + np.cos(np.pi * k / 4)) for k in range(4)]
    found = trained(4, scheduled=cosine_and_plateau, monitor="loss").history["lr"]
    assert found == pytest.approx([0.02 * f * g for f, g in zip(shape, [1, 1, 0.5, 0.25], strict=True)])

    trainer = trained(1, scheduled=lambda o: optim.ExponentialLR(o, 0.5))
    trainer.optimizer.param_groups[0]["lr"] = 1e-3
    trainer.fit(loader(), epochs=3)
    assert trainer.history["lr"] == pytest.approx([0.02, 1e-3, 5e-4])


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    class Stubborn:
        """An object to save that refuses its saved state."""

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, saved: Any) -> None:
            raise StateError("refused")

    def made() -> train.Trainer:
        model = network()
        return train.Trainer(
            model,
            optim.AdamW(model.parameters()),
            cross_entropy,
            out=tmp_path,
            progress=False,
            also={"stubborn": stubborn},
        )

    stubborn = Stubborn()
    made().fit(loader(), epochs=1)
    again = made()
    before = weights(again.model)
    with pytest.raises(StateError, match="refused"):
        again.fit(loader(), epochs=2, resume=True)
    assert weights(again.model) == before and again.updates == 0 and not again.optimizer.state


def test_wrong_uses_say_what_is_required(tmp_path: Path) -> None:
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for options, text in (
        ({"loss": None}, "a loss or a custom step"),
        ({"accumulate": 0}, "must be positive; .*accumulate"),
        ({"mode": "low"}, '"min" or'),
        ({"schedule_every": "batch"}, "schedule_every"),
        ({"step": print, "clip_norm": 1.0}, "custom step"),
        ({"also": {"counter": 3}}, "counter must have state_dict"),
        ({"keep": 0, "out": tmp_path}, "keep must be"),
    ):
        with pytest.raises(ArgumentError, match=text):
            train.Trainer(model, optimizer, **{"loss": cross_entropy, "progress": False, **options})  # type: ignore[arg-type]
    for batches, options, text in (
        (iter([]), {}, "must give batches"),
        ([(nc.ones(2),)], {}, "forward="),
        (loader(), {"monitor": "loose"}, "'loose'; the values"),
        (loader(), {"loss": lambda p, y: nc.tensor(1.0), "step": lambda x, y: None}, "must return its loss"),
        (loader(), {"metrics": {"three": lambda p, y: (1, 2, 3)}}, "pair"),
    ):
        with pytest.raises(ArgumentError, match=text):
            trained(batches=batches, **options)
    with pytest.raises(ShapeError, match="one number"):
        trained(loss=lambda p, y: p)


def test_a_folder_is_locked_by_one_training_and_not_overwritten(tmp_path: Path) -> None:
    trained(1, out=tmp_path)
    with pytest.raises(ArgumentError, match="resume=True"):
        trained(2, out=tmp_path)

    class Second:
        """A metric that trains into the same folder."""

        def __call__(self, prediction: Any, target: Any) -> float:
            with pytest.raises(StateError, match="another training uses"):
                trained(1, out=tmp_path / "held")
            return 1.0

    trained(1, out=tmp_path / "held", metrics={"second": Second()}, jit=False)
    (tmp_path / "file").touch()
    with pytest.raises(nc.DeviceError, match="cannot write the folder"):
        trained(1, out=tmp_path / "file" / "below")
