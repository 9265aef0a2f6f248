"""Training: a compiled loop with metrics, schedules and early stopping; checkpoints, logs and reports.

    from nacre import data, nn, optim, train

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    trainer = train.Trainer(model, optim.AdamW(model.parameters(), lr=3e-3), nn.functional.cross_entropy,
                            metrics={"accuracy": train.accuracy}, out="runs/first")
    history = trainer.fit(training_loader, validation_loader, epochs=20, resume=True)

The module of a name is loaded when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.base.lazy import loader

HOMES = {
    "checkpoint": "Checkpoint Checkpoints DamagedCheckpoint read restore_model",
    "history": "History",
    "interrupt": "Interrupted",
    "log": "Csv JsonLines Writer read_json_lines",
    "mlflow": "MLflow",
    "loop": "Trainer",
    "metrics": "Means accuracy top",
    "stopping": "EarlyStopping",
    "tensorboard": "TensorBoard",
}

__getattr__ = loader(__name__, HOMES)

if TYPE_CHECKING:
    from nacre.train.checkpoint import Checkpoint, Checkpoints, DamagedCheckpoint, read, restore_model
    from nacre.train.history import History
    from nacre.train.interrupt import Interrupted
    from nacre.train.log import Csv, JsonLines, Writer, read_json_lines
    from nacre.train.loop import Trainer
    from nacre.train.metrics import Means, accuracy, top
    from nacre.train.mlflow import MLflow
    from nacre.train.stopping import EarlyStopping
    from nacre.train.tensorboard import TensorBoard

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Csv",
    "DamagedCheckpoint",
    "EarlyStopping",
    "History",
    "Interrupted",
    "JsonLines",
    "MLflow",
    "Means",
    "TensorBoard",
    "Trainer",
    "Writer",
    "accuracy",
    "read",
    "read_json_lines",
    "restore_model",
    "top",
]


def __dir__() -> list[str]:
    return __all__
