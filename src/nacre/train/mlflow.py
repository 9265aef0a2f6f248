"""A log writer for MLflow (the extra `mlflow`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nacre.base.errors import MissingExtra, StateError
from nacre.train.log import no_position
from nacre.train.state import is_named

__all__ = ["MLflow"]


class MLflow:
    """A writer of metrics to a run of an MLflow server or folder: "step/loss", "epoch/valid_loss" … by step.

    Pass it to a trainer: `Trainer(…, writers=[train.MLflow("digits", parameters={"lr": 3e-3})])`.  `tracking_uri` is
    the one of MLflow.  A resumed training continues its run, and writes no value twice.

    Raises MissingExtra if mlflow is not installed.

    >>> writer = train.MLflow("digits", parameters={"lr": 3e-3})  # doctest: +SKIP
    """

    def __init__(
        self,
        experiment: str = "nacre",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.experiment, self.run_name, self.parameters = experiment, run_name, dict(parameters or {})
        self.run = ""
        self.written: dict[str, int] = {}  # the last step of each metric
        try:
            self.module: Any = import_module("mlflow")
        except ImportError as fault:
            raise MissingExtra(
                f"train: mlflow is required to write for MLflow; it could not be imported ({fault}); install the "
                "extra: pip install 'nacre[mlflow]'"
            ) from None
        self.client: Any = self.module.MlflowClient(tracking_uri=tracking_uri)

    def begin(self, position: Any) -> None:
        """Resume a run, or begin one."""
        self.written = {}
        if position is not None:
            if not is_named(position) or not isinstance(position.get("run"), str):
                raise no_position(position, "run", self.experiment)
            self.run = position["run"]
            for key in self.client.get_run(self.run).data.metrics:
                self.written[key] = max(m.step for m in self.client.get_metric_history(self.run, key))
            self.client.update_run(self.run, status="RUNNING")
            return
        found = self.client.get_experiment_by_name(self.experiment)
        number = found.experiment_id if found is not None else self.client.create_experiment(self.experiment)
        self.run = self.client.create_run(number, run_name=self.run_name).info.run_id
        for name, value in self.parameters.items():
            self.client.log_param(self.run, name, value)

    def write(self, kind: str, row: Mapping[str, Any]) -> None:
        """Write a row's values at its step, except those that are there already."""
        if not self.run:
            raise StateError("MLflow: the writer has not begun; call begin(None) first")
        step, now = int(row["step"]), int(time.time() * 1000)
        values = {f"{kind}/{name}": float(v) for name, v in row.items() if name != "step" and v is not None}
        new = [
            self.module.entities.Metric(key, value, now, step)
            for key, value in values.items()
            if step > self.written.get(key, -1)
        ]
        if new:
            self.client.log_batch(self.run, metrics=new)
        self.written |= {metric.key: step for metric in new}

    def position(self) -> Any:
        """The run's identifier."""
        return {"run": self.run}

    def close(self) -> None:
        """End the run."""
        if self.run:
            self.client.set_terminated(self.run)
