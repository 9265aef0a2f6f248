"""`Trainer`: the compiled training loop, with logs, checkpoints, and a resume that keeps the bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from nacre.api.random import generator
from nacre.base.arguments import is_whole, shown
from nacre.base.dtypes import DType, float32
from nacre.base.errors import ArgumentError, KindError
from nacre.nn.module import Module
from nacre.optim.cycle import ReduceLROnPlateau
from nacre.optim.optimiser import Optimizer
from nacre.train.batches import begin_epoch, length, place, remaining
from nacre.train.checkpoint import FOLDER, Checkpoint, Checkpoints, taking
from nacre.train.curves import drawn
from nacre.train.display import Display
from nacre.train.finite import require_finite_loss, require_finite_state
from nacre.train.folder import locked, replace, sweep
from nacre.train.history import VALID, History
from nacre.train.interrupt import Interrupted, SignalFlag, listening
from nacre.train.log import LOG, Writer, Writers, files
from nacre.train.metrics import Means, Metric, means
from nacre.train.report import Heading, now, page, settings
from nacre.train.resume import differing_choices, differing_notes, require_same_training, schedule_notes
from nacre.train.state import chosen, require_form, restore_unsaved_state, unsaved_state
from nacre.train.step import LOSS, SCALE, Forward, Loss, StandardStep, Step, evaluating, precision_of, usual_forward
from nacre.train.stopping import EarlyStopping, Watch

__all__ = ["Trainer"]

EPOCH, STEP = "epoch", "step"


class Trainer:
    """Trains a model: `fit` runs the epochs over a loader's batches and returns the history.

    A batch is (input, …, target).  `loss(model(input, …), target)` must be one number.  Each of `metrics` is a function
    of (prediction, target); it returns the mean over the batch, or a pair (total, count).  For other batches,
    `forward(model, *batch)` returns (prediction, target).  A custom `step(*batch)` does everything, backward and update
    included, and returns the loss or a dict of values.  `evaluate(*batch)` does the same for validation, and changes
    nothing.

    `nc.jit` compiles the step; `jit=False` gives the same bits.  `accumulate` batches make one update, with the
    gradient of the mean over all their examples.  `clip_norm` and `clip_value` clip it.  With the `precision` bfloat16
    or float16, model and loss run in `autocast`; float16 also scales the loss by a `GradScaler`, and skips updates with
    an overflow.  `schedule` is one schedule or several; they advance after every epoch, or after every update with
    `schedule_every="step"`.  `ReduceLROnPlateau` always advances after every epoch.

    `monitor` names a value of an epoch's row: "valid_loss" by default, or "loss" without validation data.  Plateau
    schedules, `early_stopping` and the choice of the best checkpoint read it.  `mode` says whether "min" or "max" is
    better.

    With a folder `out`, the trainer writes checkpoints into `out/checkpoints`: after every epoch, and every
    `save_every` updates.  It keeps the last `keep` ones and the best one.  Logs are `out/log.jsonl`, `steps.csv` (every
    `log_every` updates) and `epochs.csv`; curves are in `out/report.html`.  The title of the report is `name`, by
    default the folder's name.  `fit(…, resume=True)` continues from the last checkpoint, with the bits of a run without
    interruption.  A checkpoint holds the model, the optimiser, schedules, random numbers, the loader's place in its
    epoch, the means so far, and the positions of the logs.  `also` names other objects with `state_dict` and
    `load_state_dict` to save.  Ctrl-C lets the step finish, saves, and raises Interrupted.

    Raises ArgumentError for settings that are out of range or contradict each other.

    >>> nc.random.seed(0)
    >>> x = nc.random.normal((64, 4)); y = (x[:, 0] > 0).astype(nc.int64)
    >>> loader = data.DataLoader(data.TensorDataset(x, y), batch_size=16, shuffle=True)
    >>> model = nn.Linear(4, 2)
    >>> trainer = train.Trainer(model, optim.Adam(model.parameters(), lr=0.1), nn.functional.cross_entropy,
    ...                         metrics={"accuracy": train.accuracy}, progress=False)
    >>> history = trainer.fit(loader, loader, epochs=5)
    >>> history[-1]["valid_accuracy"] > 0.9, trainer.updates
    (True, 20)
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Loss | None = None,
        *,
        metrics: Mapping[str, Metric] | None = None,
        forward: Forward = usual_forward,
        step: Callable[..., Any] | None = None,
        evaluate: Callable[..., Any] | None = None,
        accumulate: int = 1,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        precision: DType | str = float32,
        schedule: Any = (),
        schedule_every: str = EPOCH,
        monitor: str | None = None,
        mode: str = "min",
        early_stopping: EarlyStopping | None = None,
        validate_every: int = 1,
        out: str | os.PathLike[str] | None = None,
        save_every: int | None = None,
        keep: int = 3,
        log_every: int = 10,
        writers: Sequence[Writer] = (),
        also: Mapping[str, Any] | None = None,
        jit: bool = True,
        progress: bool | Console = True,
        hint: str = "call fit again with resume=True",
        name: str | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.own_step, self.accumulate, self.clip = step is not None, accumulate, (clip_norm, clip_value)
        self.precision = precision_of(precision)
        listed = isinstance(schedule, list | tuple)
        self.schedules: list[Any] = list(cast("Sequence[Any]", schedule)) if listed else [schedule]
        self.schedule_every, self.monitor, self.mode = schedule_every, monitor, mode
        self.validate_every, self.save_every, self.log_every = validate_every, save_every, log_every
        self.also, self.hint, self.name, self.loss = dict(also or {}), hint, name, loss
        self._check(loss)
        work = StandardStep(model, optimizer, loss, metrics or {}, forward, clip_norm, clip_value, self.precision)
        if work.scaler is not None:
            self.also["loss scale"] = work.scaler
        self.step = Step(work, step, evaluate, jit)
        self.out = None if out is None else Path(out)
        self.checkpoints = None if self.out is None else Checkpoints(self.out / FOLDER, keep)
        self.writers = Writers([*(files(self.out) if self.out else ()), *writers])
        self.display = Display(progress if isinstance(progress, Console) else Console() if progress else None)
        self.watch = Watch(mode, early_stopping)
        self.history = History()
        self.means = Means()
        self.rates: dict[str, float] = {}  # learning rates and loss scale of the last update
        self.epochs = self.updates = self.batches = 0  # completed; the batches, of the current epoch
        self.passed = self.stopped = self._begun = False  # the epoch's batches are all done; stopped early
        self._place: Any = None  # of the loader in the current epoch
        self._positions: Any = None  # of the writers, at the end of `fit`
        self._best: Mapping[str, Any] | None = None  # the best weights, without a folder
        self._chosen = chosen(optimizer)  # as passed, or as in the checkpoint of a resume

    def _check(self, loss: Loss | None) -> None:
        counts = {
            "accumulate": self.accumulate,
            "validate_every": self.validate_every,
            "log_every": self.log_every,
            "save_every": 1 if self.save_every is None else self.save_every,
        }
        wrong = {k: v for k, v in counts.items() if v < 1}
        if wrong:
            raise ArgumentError(f"Trainer: these numbers must be positive; got {wrong}")
        if self.schedule_every not in (EPOCH, STEP):
            raise ArgumentError(f'Trainer: schedule_every must be "epoch" or "step"; got {self.schedule_every!r}')
        if self.name is not None and not isinstance(cast("object", self.name), str):
            raise KindError(f"Trainer: name must be a text; got {shown(self.name)}")
        if loss is None and not self.own_step:
            raise ArgumentError("Trainer: a loss or a custom step is required; got neither; pass loss= or step=")
        if self.own_step and (self.accumulate > 1 or self.clip != (None, None) or self.precision is not float32):
            raise ArgumentError(
                "Trainer: accumulate, clip_norm, clip_value and precision cannot be used with a custom step; do this "
                "work in the step"
            )
        for name, thing in {
            "optimizer": self.optimizer,
            **self.also,
            **{f"schedule {k}": s for k, s in enumerate(self.schedules)},
        }.items():
            if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
                raise ArgumentError(
                    f"Trainer: {name} must have state_dict and load_state_dict; got {type(thing).__name__}"
                )

        if not self.own_step:
            self._require_own(self.optimizer, "the optimizer")
            for schedule in self.schedules:
                self._require_own(getattr(schedule, "optimizer", self.optimizer), "the schedule's optimizer")

    def _require_own(self, optimizer: Any, what: str) -> None:
        """Raise ArgumentError for an optimiser that changes no parameter of the model."""
        own = {id(p) for p in self.model.parameters()}
        groups: list[Any] = getattr(optimizer, "param_groups", [])
        if own and groups and not any(id(p) in own for group in groups for p in group.params):
            raise ArgumentError(
                f"Trainer: {what} must hold parameters of the model; got only others; make it from model.parameters()"
            )

    # ---- fitting

    def fit(
        self, training: Iterable[Any], validation: Iterable[Any] | None = None, epochs: int = 1, *, resume: bool = False
    ) -> History:
        """Train until `epochs` epochs are done in total, earlier calls included.  Returns the history of all epochs.

        Raises StateError for a loss that is not finite, and for checkpoints of another training.  Raises ArgumentError
        for a folder that already holds a training, unless `resume` is true.
        """
        if not is_whole(epochs) or epochs < 1:
            raise ArgumentError(
                f"Trainer.fit: epochs must be a whole number of 1 or more; got {shown(epochs)}; it counts all epochs, "
                "earlier ones included"
            )
        if self.monitor is None:
            self.monitor = LOSS if validation is None else VALID + LOSS
        with ExitStack() as stack:
            if self.out is not None:
                stack.enter_context(locked(self.out))
            self._begin(resume)
            flag = stack.enter_context(listening(self.display.say))
            stack.enter_context(closing(self.writers))
            stack.enter_context(closing(self.display))
            self.display.begin(epochs)
            try:
                while self.epochs < epochs and not self.stopped:
                    self._epoch(training, validation, flag)
            finally:
                self._positions = self.writers.position()
            self._show_results()
        if self.watch.stopping is not None and self.watch.stopping.restore_best:
            self._restore_best()
        return self.history

    def _epoch(self, training: Iterable[Any], validation: Iterable[Any] | None, flag: SignalFlag) -> None:
        """Run the rest of an epoch."""
        self._train(training, flag)
        row: dict[str, Any] = {EPOCH: self.epochs + 1, STEP: self.updates, **self.means.values(), **self.rates}
        if validation is not None and (self.epochs + 1) % self.validate_every == 0:
            row |= {VALID + name: value for name, value in self._validate(validation, flag).items()}
        self._finish_epoch(row)
        if flag.signal:
            self._end(flag)

    def _train(self, training: Iterable[Any], flag: SignalFlag) -> None:
        """Train on the remaining batches of an epoch."""
        if self.passed:
            return
        with remaining(training, self.epochs, self.batches, self._place) as batches:
            self.display.epoch_begins(self.epochs + 1, length(training), self.batches)
            while group := list(islice(batches, self.accumulate)):
                found = self.step.train(group, self.accumulate == 1)
                self.batches, self.updates = self.batches + len(group), self.updates + 1
                require_finite_loss(found, self.updates, self._saved)
                self.means.add(found)
                self.rates = self._rates() | {name: n for name, n in means(found).items() if name == SCALE}
                if self.updates % self.log_every == 0:
                    row = {STEP: self.updates, EPOCH: self.epochs + 1, **means(found), **self.rates}
                    self.writers.write(STEP, row)
                if self.schedule_every == STEP:
                    self._move_schedules(STEP, None)
                self.display.step(self.batches, found)
                if flag.signal or (self.save_every and self.updates % self.save_every == 0):
                    self.passed = len(group) < self.accumulate  # then the loader had no further batch
                    self._place = None if self.passed else place(training)
                    self.save()
                    if flag.signal:
                        self._end(flag)
        if not self.batches:
            raise ArgumentError("Trainer: the training loader must give batches; got none")
        if self.checkpoints is None:  # otherwise before each checkpoint is written
            self._require_finite_state()
        self.passed, self._place = True, None

    def validate(self, validation: Iterable[Any]) -> dict[str, float]:
        """The means of loss and metrics over validation data, in evaluation mode.

        Raises ArgumentError if there are no batches.
        """
        return self._validate(validation, SignalFlag())

    def _validate(self, validation: Iterable[Any], flag: SignalFlag) -> dict[str, float]:
        """The means over the validation data; the training ends here if a signal arrived."""
        found = Means()
        begin_epoch(validation, 0)
        with evaluating(self.model):
            for batch in validation:
                found.add(self.step.evaluate(batch))
                if flag.signal:
                    break
        if flag.signal:
            self.save()
            self._end(flag)
        if not found.sums:
            raise ArgumentError("Trainer: the validation loader must give batches; got none")
        return found.values()

    def _finish_epoch(self, row: dict[str, Any]) -> None:
        """Process the row of an epoch: history, schedules, best value, early stopping, logs, checkpoint."""
        value = row.get(str(self.monitor))
        if value is None and (self.validate_every == 1 or not str(self.monitor).startswith(VALID)):
            raise ArgumentError(
                f"Trainer: monitor must name a measured value; got {self.monitor!r}; the values are {', '.join(row)}"
            )
        self.history.rows.append(row)
        self._move_schedules(EPOCH, value)
        best = value is not None and self.watch.see(value, self.updates)
        if best and self.out is None and self.watch.stopping is not None and self.watch.stopping.restore_best:
            self._best = self.model.state_dict()
        self.stopped = self.watch.stops
        self.epochs, self.batches, self.passed, self.means, self._place = self.epochs + 1, 0, False, Means(), None
        self.writers.write(EPOCH, row)
        self.save()
        self._report()
        self.display.epoch(row, best)
        if self.stopped:
            self.display.say(f"stopped: {self.monitor} has not improved for {self.watch.bad} epochs")

    def _move_schedules(self, every: str, value: float | None) -> None:
        """Advance the schedules of updates, or those of epochs; plateau schedules need a value."""
        for schedule in self.schedules:
            if isinstance(schedule, ReduceLROnPlateau):
                if value is not None:
                    schedule.step(value)
            elif self.schedule_every == every:
                schedule.step()

    def _rates(self) -> dict[str, float]:
        """The learning rate of every group."""
        groups = self.optimizer.param_groups
        return {f"lr_{k}" if k else "lr": float(group["lr"]) for k, group in enumerate(groups)}

    def _require_finite_state(self) -> None:
        require_finite_state(self.model, self.optimizer, self.updates, self._saved)

    def _saved(self) -> str:
        """The description of the checkpoint saved before."""
        paths = self.checkpoints.paths() if self.checkpoints is not None else []
        return f"the last sound checkpoint is {paths[-1]}" if paths else "nothing was saved"

    def _report(self) -> None:
        """Write the report with the curves so far."""
        if self.out is not None and self.history.rows:
            heading = Heading(
                self.name or self.out.resolve().name or "Training",
                now(),
                self._settings_text(),
                str(self.monitor),
                self.watch.best_step,
            )
            replace(self.out / "report.html", page(self.history, heading).encode("utf-8", "replace"))

    def _settings_text(self) -> dict[str, str]:
        """The settings that the report shows."""
        own = {k: v for k, v in self._settings().items() if k not in ("optimizer", "schedules", "also")}
        if not self.schedules:
            del own["schedule_every"]
        return settings(
            self.model,
            self.optimizer,
            self.loss,
            self.schedules,
            {"updates": self.updates, **own, "validate_every": self.validate_every},
            {k: v for k, v in self._chosen.items() if " of group " not in k},
        )

    def _show_results(self) -> None:
        """Show the curves, the verdict, and the paths of the results."""
        curves = drawn(self.history) if self.history.compared() else None
        if curves is not None:
            self.display.show(curves)
            self.display.say(self.history.verdict())
        best = next((row for row in self.history.rows if row.get(STEP) == self.watch.best_step), None)
        if best is not None:
            self.display.say(f"best epoch: {best[EPOCH]} ({self.monitor} {self.watch.best:.4g})")
        if self.out is not None:
            if best is not None:
                self.display.say(f"best checkpoint: {self.out / 'checkpoints' / 'best'}")
            self.display.say(f"report: {self.out / 'report.html'}")

    def _end(self, flag: SignalFlag) -> None:
        """End the training if a signal arrived; everything is saved."""
        saved = (
            f"saved after update {self.updates} in {self.out}; to resume: {self.hint}"
            if self.out
            else "interrupted; nothing is saved without out="
        )
        self.display.close()
        self.display.say(saved)
        raise Interrupted(saved)

    # ---- saving

    def save(self) -> Path | None:
        """Save all that a resumed training needs; returns the checkpoint's folder, or None without `out`.

        Raises StateError for weights that are not finite; the existing checkpoints stay as they are.
        """
        if self.checkpoints is None:
            return None
        self._require_finite_state()
        return self.checkpoints.save(self.updates, self.model.state_dict(), self.state_dict(), self.watch.best_step)

    def state_dict(self) -> dict[str, Any]:
        """The whole state of the training, except the model's own state dict."""
        return {
            "settings": self._settings(), "epochs": self.epochs, "updates": self.updates, "batches": self.batches,
            "passed": self.passed, "stopped": self.stopped, "place": self._place, "means": dict(self.means.sums),
            "rates": self.rates,
            "history": self.history.rows, "watch": self.watch.state_dict(), "model": unsaved_state(self.model),
            "optimizer": self.optimizer.state_dict(), "schedules": [s.state_dict() for s in self.schedules],
            "random": generator().state.value, "also": {name: x.state_dict() for name, x in self.also.items()},
            "writers": self.writers.position(), "notes": schedule_notes(self.schedules), "chosen": self._chosen,
        }  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        """The settings that must be equal for a resumed training to give the same bits, where they can be compared."""
        return {
            "accumulate": self.accumulate, "clip_norm": self.clip[0], "clip_value": self.clip[1],
            "optimizer": type(self.optimizer).__name__, "schedules": [type(s).__name__ for s in self.schedules],
            "schedule_every": self.schedule_every, "monitor": self.monitor, "mode": self.mode,
            "also": sorted(self.also), "precision": self.precision.name,
        }  # fmt: skip

    def load(self, checkpoint: Checkpoint) -> Any:
        """Restore the state of a checkpoint; returns the positions of the writers.

        Raises StateError for a checkpoint of another training; then nothing is changed.
        """
        state = checkpoint.state
        require_form(state, checkpoint.path)
        require_same_training(checkpoint, self.model, self._settings())
        before = self.model.state_dict(), self.state_dict()
        try:
            self._take(checkpoint.model, state)
        except BaseException:
            self._take(*before)
            raise
        changed = differing_notes(state["notes"], schedule_notes(self.schedules))
        if changed:
            self.display.warn(f"resumed with other settings, so the bits will differ: {'; '.join(changed)}")
        self._keep_chosen(state.get("chosen"))
        return state["writers"]

    def _keep_chosen(self, saved: Any) -> None:
        """Use the optimiser's settings of the checkpoint, and report those that it was not made with."""
        found = cast("dict[str, Any]", saved if isinstance(saved, dict) else self._chosen)
        differing = differing_choices(found, self._chosen)
        if differing:
            self.display.warn(
                f"resumed with the optimizer's settings of the checkpoint: {'; '.join(differing)}; to use "
                "others, begin anew in another folder"
            )
        self._chosen = found

    def _take(self, model: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Restore the model's state dict and the trainer's state."""
        self.model.load_state_dict(model)
        restore_unsaved_state(self.model, state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for schedule, saved in zip(self.schedules, state["schedules"], strict=True):
            schedule.load_state_dict(saved)
        generator().state.assign(state["random"])
        for name, thing in self.also.items():
            thing.load_state_dict(state["also"][name])
        self.watch.load_state_dict(state["watch"])
        self.history = History(state["history"])
        self.means.sums, self.rates = dict(state["means"]), dict(state["rates"])
        self.epochs, self.updates, self.batches = state["epochs"], state["updates"], state["batches"]
        self.passed, self.stopped, self._place = state["passed"], state["stopped"], state["place"]

    def _begin(self, resume: bool) -> None:
        """Begin at the beginning, or after a checkpoint or an earlier call of `fit`."""
        positions: Any = self._positions
        if self.out is not None:
            now()  # an invalid date is reported before the training, not after its first epoch
            sweep(self.out)
        if self.checkpoints is not None and (resume or not self._begun):
            self.checkpoints.sweep()
            paths = self.checkpoints.paths()
            if paths and not resume:
                raise ArgumentError(
                    f"Trainer: the folder {self.out} already holds a training, up to {paths[-1].name}; {self.hint}, or "
                    "name another folder"
                )
            checkpoint = self.checkpoints.latest(self.display.warn) if resume else None
            if checkpoint is not None:
                with taking(checkpoint):
                    positions = self.load(checkpoint)
                self.checkpoints.arrange(self.watch.best_step)
                self.display.say(
                    f"resumed after update {self.updates}, {self.epochs} epochs done, from {checkpoint.path.name}"
                )
                self._report()
            elif resume:
                heading = self.display.warn if self.out and (self.out / LOG).exists() else self.display.say
                heading(f"no checkpoint in {self.out}: starting from the beginning")
        self._begun = True
        self.writers.begin(positions)

    def _restore_best(self) -> None:
        """Load the weights of the best epoch into the model."""
        best = self._best if self.checkpoints is None else getattr(self.checkpoints.best(), "model", None)
        if best is not None:
            self.model.load_state_dict(best)
            self.display.say(f"restored the best weights, those after update {self.watch.best_step}")
