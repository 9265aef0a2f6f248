"""Nacre in a benchmark that times frameworks side by side: class `Nacre` supplies the op vocabulary and the runs.

The benchmark describes each case once, against a small vocabulary (`ops.linear`, `ops.conv2d`, …), and asks a
contender for a `Run`: one synchronous step, and the values to compare with the reference.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlbench.core import Adapter, Case, Run


class Ops:
    """The op vocabulary on Nacre's tensors."""

    def __init__(self) -> None:
        import nacre as nc
        from nacre.nn import functional

        self.nc, self.F = nc, functional
        self.relu, self.tanh, self.sqrt, self.abs = functional.relu, nc.tanh, nc.sqrt, nc.abs
        self.matmul = nc.matmul
        self.heads = 1

    def with_heads(self, n: int) -> Ops:
        self.heads = n
        return self

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        y = x @ w
        return y if b is None else y + b

    def unembed(self, x: Any, emb: Any) -> Any:
        return x @ emb.T

    def embedding(self, emb: Any, ids: Any) -> Any:
        return self.nc.take(emb, ids, axis=0)

    def rows(self, emb: Any, n: int) -> Any:
        return emb[:n]

    def last(self, x: Any) -> Any:
        return x[:, -1]

    def conv2d(self, x: Any, w: Any, b: Any = None, stride: int = 1, pad: int = 0) -> Any:
        return self.F.conv2d(x, w, b, stride=stride, padding=pad)

    def maxpool(self, x: Any, k: int, stride: int, pad: int) -> Any:
        return self.F.max_pool2d(x, k, stride, pad)

    def global_avgpool(self, x: Any) -> Any:
        return self.nc.mean(x, axis=(2, 3))

    def flatten(self, x: Any) -> Any:
        return self.nc.reshape(x, (x.shape[0], -1))

    def batchnorm(self, x: Any, g: Any, b: Any, m: Any, v: Any) -> Any:
        s = g / self.nc.sqrt(v + 1e-5)
        shape = (1, -1, 1, 1)
        return x * self.nc.reshape(s, shape) + self.nc.reshape(b - m * s, shape)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return self.F.layer_norm(x, (x.shape[-1],), g, b)

    def gelu(self, x: Any) -> Any:
        return self.F.gelu(x, approximate="tanh")

    def softmax(self, x: Any) -> Any:
        return self.F.softmax(x, -1)

    def cross_entropy(self, x: Any, y: Any) -> Any:
        return self.F.cross_entropy(self.nc.reshape(x, (-1, x.shape[-1])), self.nc.reshape(y, (-1,)))

    def split_heads(self, x: Any) -> tuple[Any, ...]:
        batch, length, width = x.shape
        parts = self.nc.reshape(x, (batch, length, 3, self.heads, width // (3 * self.heads)))
        parts = self.nc.permute_dims(parts, (2, 0, 3, 1, 4))
        return parts[0], parts[1], parts[2]

    def merge_heads(self, x: Any) -> Any:
        batch, heads, length, size = x.shape
        return self.nc.reshape(self.nc.permute_dims(x, (0, 2, 1, 3)), (batch, length, heads * size))

    def causal_attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def decode_attention(self, q: Any, k: Any, v: Any, cache: Any, pos: Any) -> tuple[Any, tuple[Any, ...]]:
        n = pos[0, 0]
        at = 0, 0, n, 0
        keys, values = (self.nc.dynamic_update_slice(c, x, at) for c, x in zip(cache, (k, v), strict=True))
        seen = self.nc.arange(keys.shape[2]) <= n
        return self.F.scaled_dot_product_attention(q, keys, values, seen), (keys, values)


class Int8Ops(Ops):
    """The vocabulary where matrices of weights are int8, with a scale for each column or each row of a table."""

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        q, scale = w
        return (x @ q.astype(self.nc.float32)) * scale + b

    def unembed(self, x: Any, emb: Any) -> Any:
        q, scale = emb
        return (x @ q.astype(self.nc.float32).T) * scale

    def embedding(self, emb: Any, ids: Any) -> Any:
        q, scale = (self.nc.take(part, ids, axis=0) for part in emb)
        return q.astype(self.nc.float32) * scale[..., None]


def _int8(nc: Any, name: str, w: Any) -> Any:
    """A matrix of weights as numbers from -127 to 127 and scales; vectors as they are."""
    if not name.endswith((".lw", ".emb")):
        return w
    numbers, axis = w.numpy(), 0 if name.endswith(".lw") else 1
    scale = np.abs(numbers).max(axis, keepdims=True) / 127
    return nc.asarray(np.rint(numbers / scale).astype(np.int8)), nc.asarray(scale.squeeze(axis))


def _room(cache: Any, length: int) -> Any:
    """A cache of keys or values with zeros behind it, up to the length."""
    return np.pad(cache, ((0, 0), (0, 0), (0, length - cache.shape[2]), (0, 0)))


class Nacre(Adapter):
    """Nacre, compiled by `jit`; eager in the micro cases that say so."""

    name, packages, imports = "nacre", ("nacre",), "import nacre"

    def __init__(self) -> None:
        folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        if folder is not None:  # a measurement of cold starts: our cache goes beside the others'
            os.environ.setdefault("NACRE_CACHE_DIR", os.path.join(os.path.dirname(folder), "nacre"))
        import nacre as nc

        self.nc = nc
        nc.set_threads(2)

    def version(self) -> str:
        return self.nc.__version__

    def _load(self, case: Case) -> tuple[dict[str, Any], list[Any]]:
        return (
            {k: self.nc.asarray(np.ascontiguousarray(w)) for k, w in case.params().items()},
            [self.nc.asarray(np.ascontiguousarray(x)) for x in case.inputs()],
        )

    def training_step(self, case: Case) -> tuple[Any, list[Any]]:
        """The jitted step of a training case, and its arguments."""
        from nacre import nn, optim

        ops, (weights, x), o = Ops(), self._load(case), case.opt
        params = {k: nn.Parameter(w) for k, w in weights.items()}
        kind = optim.AdamW if o.weight_decay else optim.Adam
        optimiser = kind(list(params.values()), lr=o.lr, betas=(o.b1, o.b2), eps=o.eps, weight_decay=o.weight_decay)

        @self.nc.jit
        def step(*x: Any) -> Any:
            loss = case.forward(ops, {k: p.value for k, p in params.items()}, *x)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss

        return step, x

    def train(self, case: Case) -> Run:
        step, x = self.training_step(case)

        def once() -> float:
            return step(*x).item()

        return Run(once, lambda: [[once() for _ in range(4)]])

    def infer(self, case: Case) -> Run:
        ops, (weights, x) = Ops(), self._load(case)
        names, values = list(weights), list(weights.values())

        @self.nc.jit
        def forward(*given: Any) -> Any:
            return case.forward(ops, dict(zip(names, given[: len(names)])), *given[len(names) :])

        def step() -> Any:
            return forward(*values, *x)

        return Run(step, lambda: [step().numpy()])

    def grad(self, case: Case) -> Run:
        ops, (_, x) = Ops(), self._load(case)

        @self.nc.jit
        def gradients(g: Any, *x: Any) -> Any:
            return self.nc.vjp(lambda *x: case.forward(ops, {}, *x), *x)[1](g)

        def step() -> Sequence[Any]:
            return gradients(x[-1], *x[:-1])

        return Run(step, lambda: [a.numpy() for a in step()])

    def decode(self, case: Case) -> Run:
        from mlbench.workloads import w6_gpt2_decode as w6

        nc, ops, weights = self.nc, Ops(), self._load(case)[0]
        if case.extra.get("int8"):
            ops, weights = Int8Ops(), {k: _int8(nc, k, w) for k, w in weights.items()}
        held = [[nc.Variable(nc.asarray(_room(a, w6.MAX))) for a in pair] for pair in w6.caches()]

        @nc.jit
        def token(tok: Any, pos: Any) -> Any:
            before = [tuple(v.value for v in pair) for pair in held]
            logits, after = w6.gpt.decode(ops, weights, w6.C, tok, pos, before)
            for pair, values in zip(held, after, strict=True):
                for variable, value in zip(pair, values, strict=True):
                    variable.assign(value)
            return logits

        tokens = [nc.asarray(np.full((1, 1), t, np.int32)) for t in w6.tokens()]
        places = [nc.asarray(np.full((1, 1), n, np.int32)) for n in range(w6.PAST, w6.MAX)]
        steps = itertools.cycle(zip(tokens, places, strict=True))

        def step() -> Any:
            return token(*next(steps))

        return Run(step, lambda: [step().numpy() for _ in range(w6.CHECK_STEPS)])

    def micro(self, case: Case) -> Run:
        nc, n = self.nc, 1000
        a, b = nc.ones(4), nc.ones(4)
        if case.id == "W9.add_grad":
            a.requires_grad_()
        f: Callable[..., Any] = nc.jit(lambda x: x * 2 + 1)

        def jitted() -> None:
            for _ in range(n):
                f(a)

        def eager() -> None:
            for _ in range(n):
                a + b

        return Run(jitted if case.id == "W9.jit" else eager, inner=n)


class NacreFast(Nacre):
    """Nacre with `numerics("fast")`: other bits, where they are faster."""

    name = "nacre-fast"

    def train(self, case: Case) -> Run:
        return self._fast(super().train(case))

    def infer(self, case: Case) -> Run:
        return self._fast(super().infer(case))

    def grad(self, case: Case) -> Run:
        return self._fast(super().grad(case))

    def _fast(self, run: Run) -> Run:
        """The run with its calls in the mode, whose entry is timed too."""

        def within(f: Callable[[], Any]) -> Callable[[], Any]:
            def call() -> Any:
                with self.nc.numerics("fast"):
                    return f()

            return call

        return Run(within(run.step), None if run.check is None else within(run.check), run.inner)
