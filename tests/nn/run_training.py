"""Train a network of many kinds of layers, and print a digest of losses, weights and some functions' results.

python tests/nn/run_training.py THREADS (eager | jit)
"""

from __future__ import annotations

import hashlib
import sys

import nacre as nc
from nacre import nn, optim
from nacre.nn import functional as F

nc.set_threads(int(sys.argv[1]))
nc.random.seed(0)
net = nn.Sequential(
    nn.Conv3d(2, 4, 3), nn.InstanceNorm3d(4), nn.Mish(), nn.AdaptiveAvgPool3d(2), nn.Flatten(), nn.Linear(32, 16),
    nn.PReLU(), nn.AlphaDropout(0.2), nn.Unflatten(1, (4, 4)), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
)  # fmt: skip
rnn = nn.LSTM(4, 5, bidirectional=True)
parameters = [*net.parameters(), *rnn.parameters()]
opt = optim.NAdam(parameters, lr=0.01)
x = nc.random.normal((33, 2, 6, 7, 5))


def step(x: nc.Tensor) -> nc.Tensor:
    """One step of training."""
    y = rnn(net(x))[0]
    loss = F.smooth_l1_loss(y, F.softsign(y) * 2)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss


run = nc.jit(step) if sys.argv[2] == "jit" else step
results = [run(x) for _ in range(3)] + [p.data for p in parameters]
results += [F.hardswish(x), F.logsigmoid(x), F.lp_pool3d(x, 3.0, 2), F.local_response_norm(x, 3)]
results.append(F.interpolate(x.reshape(33, 2, 6, 35), scale_factor=1.7, mode="bicubic"))
print(hashlib.sha256(b"".join(r.numpy().tobytes() for r in results)).hexdigest())
