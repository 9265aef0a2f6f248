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

from nacre.base.lazy import listing, loader

HOMES = {
    "checkpoint": "Checkpoint Checkpoints DamagedCheckpoint read restore_model",
    "history": "History",
    "interrupt": "Interrupted",
    "log": "Csv JsonLines Writer read_json_lines",
    "loop": "Trainer",
    "metrics": "Means accuracy top",
    "mlflow": "MLflow",
    "stopping": "EarlyStopping",
    "tensorboard": "TensorBoard",
}

__dir__ = listing(HOMES)

if TYPE_CHECKING:
    from nacre.train.checkpoint import *
    from nacre.train.history import *
    from nacre.train.interrupt import *
    from nacre.train.log import *
    from nacre.train.loop import *
    from nacre.train.metrics import *
    from nacre.train.mlflow import *
    from nacre.train.stopping import *
    from nacre.train.tensorboard import *
else:
    __getattr__ = loader(__name__, HOMES)
