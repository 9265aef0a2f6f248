"""The first training step of convolutional networks, with nothing cached, beside torch eager and inductor.

    python3 run.py bench first_step                                  # Nacre, compiled and eager
    python3 run.py bench first_step --peer path/to/python            # and torch, which that Python has
    python3 run.py bench first_step --only mobilenet --rounds 5
    python3 run.py bench first_step --table FILE ...                 # docs/performance.md, from files of --json

Each measurement has a process of its own, and empty folders for caches.  The time is that of the first call of the
step: tracing, compiling and running.  Imports, the construction of the network and its data come before.  The networks
are written once, for the layers of either library.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

THREADS = 2
CONTENDERS = ("nacre", "nacre eager", "torch", "inductor")
IMAGES, SIZE, CLASSES = 8, 160, 1000

Make = Callable[[Any, Any], Any]  # of the layers of a library, and its `cat`


def block(
    nn: Any, inward: int, outward: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Any = None
) -> Any:
    """A convolution, batch norm, and an activation: ReLU if none is given."""
    return nn.Sequential(
        nn.Conv2d(inward, outward, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outward),
        nn.ReLU() if act is None else act,
    )


def head(nn: Any, channels: int) -> tuple[Any, ...]:
    """The mean of each channel, then classes."""
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)


def resnet(nn: Any, cat: Any) -> Any:
    """ResNet-18 (He et al. 2016)."""

    class Residual(nn.Module):
        """Two convolutions beside the identity, or beside a convolution of one pixel."""

        def __init__(self, inward: int, outward: int, stride: int) -> None:
            super().__init__()
            self.main = nn.Sequential(
                block(nn, inward, outward, 3, stride), block(nn, outward, outward, act=nn.Identity())
            )
            same = inward == outward and stride == 1
            self.beside = nn.Identity() if same else block(nn, inward, outward, 1, stride, act=nn.Identity())
            self.act = nn.ReLU()

        def forward(self, x: Any) -> Any:
            """[N, inward, H, W] → [N, outward, H / stride, W / stride]."""
            return self.act(self.main(x) + self.beside(x))

    stages, inward = list[Any](), 64
    for k, outward in enumerate((64, 128, 256, 512)):
        stages += [Residual(inward, outward, 1 + (k > 0)), Residual(outward, outward, 1)]
        inward = outward
    return nn.Sequential(block(nn, 3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *stages, *head(nn, 512))


def vgg(nn: Any, cat: Any) -> Any:
    """VGG-11 with batch norm (Simonyan and Zisserman 2015), whose head is the mean of each channel."""
    layers, inward = list[Any](), 3
    for outward, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers.append(block(nn, inward, outward))
            inward = outward
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *head(nn, 512))


def squeezenet(nn: Any, cat: Any) -> Any:
    """SqueezeNet 1.1 (Iandola et al. 2016), with batch norm."""

    class Fire(nn.Module):
        """A few channels, from which 1 × 1 and 3 × 3 convolutions make many."""

        def __init__(self, inward: int, few: int, many: int) -> None:
            super().__init__()
            self.squeeze = block(nn, inward, few, 1)
            self.one, self.three = block(nn, few, many, 1), block(nn, few, many)

        def forward(self, x: Any) -> Any:
            """[N, inward, H, W] → [N, 2 · many, H, W]."""
            x = self.squeeze(x)
            return cat([self.one(x), self.three(x)], 1)

    def pool() -> Any:
        """Half the size."""
        return nn.MaxPool2d(3, 2)

    return nn.Sequential(
        block(nn, 3, 64, 3, 2), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128),
        Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        block(nn, 512, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


def efficientnet(nn: Any, cat: Any) -> Any:
    """EfficientNet-B0 (Tan and Le 2019)."""

    class Excited(nn.Module):
        """Channels scaled by what all pixels of the image say."""

        def __init__(self, channels: int, few: int) -> None:
            super().__init__()
            self.scale = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, few, 1), nn.SiLU(), nn.Conv2d(few, channels, 1),
                nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            """[N, channels, H, W] → the same."""
            return x * self.scale(x)

    class Inverted(nn.Module):
        """More channels, a convolution of each alone, then fewer."""

        def __init__(self, inward: int, outward: int, kernel: int, stride: int, factor: int) -> None:
            super().__init__()
            wide, self.same = inward * factor, inward == outward and stride == 1
            self.main = nn.Sequential(
                *([block(nn, inward, wide, 1, act=nn.SiLU())] if factor > 1 else []),
                block(nn, wide, wide, kernel, stride, wide, nn.SiLU()),
                Excited(wide, max(1, inward // 4)),
                block(nn, wide, outward, 1, act=nn.Identity()),
            )

        def forward(self, x: Any) -> Any:
            """[N, inward, H, W] → [N, outward, H / stride, W / stride]."""
            return self.main(x) + x if self.same else self.main(x)

    stages, inward = list[Any](), 32
    for factor, kernel, stride, outward, count in (
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ):  # fmt: skip
        for k in range(count):
            stages.append(Inverted(inward, outward, kernel, 1 if k else stride, factor))
            inward = outward
    return nn.Sequential(
        block(nn, 3, 32, 3, 2, act=nn.SiLU()), *stages, block(nn, 320, 1280, 1, act=nn.SiLU()), *head(nn, 1280)
    )


def densenet(nn: Any, cat: Any) -> Any:
    """DenseNet-BC (Huang et al. 2017) of four groups of six layers, growing by 32 channels."""

    class Dense(nn.Module):
        """32 channels more."""

        def __init__(self, inward: int) -> None:
            super().__init__()
            self.make = nn.Sequential(
                nn.BatchNorm2d(inward), nn.ReLU(), block(nn, inward, 128, 1), nn.Conv2d(128, 32, 3, 1, 1, bias=False)
            )

        def forward(self, x: Any) -> Any:
            """[N, inward, H, W] → [N, inward + 32, H, W]."""
            return cat([x, self.make(x)], 1)

    layers, inward = [block(nn, 3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for k in range(4):
        for _ in range(6):
            layers.append(Dense(inward))
            inward += 32
        if k < 3:
            layers += [
                nn.BatchNorm2d(inward), nn.ReLU(), nn.Conv2d(inward, inward // 2, 1, bias=False), nn.AvgPool2d(2)
            ]  # fmt: skip
            inward //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(inward), nn.ReLU(), *head(nn, inward))


NETWORKS: dict[str, Make] = {
    "resnet18": resnet,
    "vgg11": vgg,
    "squeezenet": squeezenet,
    "efficientnet": efficientnet,
    "densenet": densenet,
}
NAMES = ("mobilenet", "unet", *NETWORKS)  # the first two are those of `models.py`


def network(name: str, library: str) -> Any:
    """A network in Nacre or in torch."""
    if name in NETWORKS:
        layers = import_module(f"{library}.nn")
        return NETWORKS[name](layers, import_module(library).cat)
    case = import_module("models").CASES[name]
    if library == "nacre":
        return case.ours(import_module(f"nacre.examples.models.{case.module}"))
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "peers"))
    return case.theirs(import_module("torch_models"))


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The images and their targets."""
    rng = np.random.default_rng(0)
    if name in NETWORKS:
        return rng.standard_normal((IMAGES, 3, SIZE, SIZE), np.float32), rng.integers(0, CLASSES, IMAGES)
    case = import_module("models").CASES[name]
    return case.inputs(rng)[0], case.targets(rng)


def of_nacre(name: str, compiled: bool) -> Callable[[], float]:
    """A step of Nacre."""
    import nacre as nc

    nc.set_threads(THREADS)
    model, (x, y) = network(name, "nacre"), map(nc.asarray, data(name))
    update = nc.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def train(x: Any, y: Any) -> Any:
        loss = nc.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        update.step()
        update.zero_grad()
        return loss

    step = nc.jit(train) if compiled else train
    return lambda: step(x, y).item()


def of_torch(name: str, compiled: bool) -> Callable[[], float]:
    """A step of torch, eager or compiled by inductor."""
    torch: Any = import_module("torch")
    torch.set_num_threads(THREADS)
    model, (x, y) = network(name, "torch"), map(torch.from_numpy, data(name))
    update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(x), y)

    forward = torch.compile(loss, dynamic=False) if compiled else loss

    def train() -> float:
        found = forward(x, y)
        found.backward()
        update.step()
        update.zero_grad()
        return found.item()

    return train


def work(contender: str, name: str) -> None:
    """Print the seconds of the first and the second step, and of the processor for the first one."""
    library, _, way = contender.partition(" ")
    step = of_nacre(name, not way) if library == "nacre" else of_torch(name, library == "inductor")
    start, busy = time.perf_counter(), time.process_time()
    step()
    first, busy = time.perf_counter() - start, time.process_time() - busy
    start = time.perf_counter()
    step()
    print(json.dumps({"first": first, "busy": busy, "second": time.perf_counter() - start}))


def measured(python: str, contender: str, name: str) -> dict[str, float] | None:
    """The times of a process of its own with empty caches; None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"NACRE_CACHE_DIR": f"{folder}/nacre", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        line = [python, __file__, "--work", contender, "--only", name]
        done = subprocess.run(line, env=os.environ | caches, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: {contender} fails: {done.stderr[-300:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def headline(contenders: Sequence[str]) -> tuple[str, str]:
    """The first two lines of the table."""
    head = ["first step, seconds, least / median", *contenders]
    return f"| {' | '.join(head)} |", "|---" * len(head) + "|"


def cell(found: Sequence[dict[str, float] | None]) -> str:
    """The least and the median seconds of the first steps."""
    times = [f["first"] for f in found if f is not None]
    return f"{min(times):.2f} / {median(times):.2f}" if times else "–"


def table(files: Sequence[Path]) -> Iterator[str]:
    """The table of measured times, in Markdown; a later file counts where several have a network."""
    every: dict[str, dict[str, list[dict[str, float] | None]]] = {}
    for file in files:
        every.update(json.loads(file.read_text(encoding="utf-8")))
    yield from headline(CONTENDERS)
    for name in NAMES:
        if name in every:
            yield f"| {name} | {' | '.join(cell(every[name].get(c, [])) for c in CONTENDERS)} |"


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python that has torch")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="write docs/performance.md from these")
    parser.add_argument("--work", choices=CONTENDERS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        work(given.work, given.only[0])
        return 0
    if given.table:
        models = import_module("models")
        models.put(list(table(given.table)), "first steps", models.PAGE)
        return 0
    pythons = {"nacre": sys.executable, "torch": given.peer, "inductor": given.peer}
    contenders = [c for c in given.contenders if pythons[c.split()[0]]]
    print("\n".join(headline(contenders)))
    every: dict[str, dict[str, list[dict[str, float] | None]]] = {}
    for name in given.only:
        found = every[name] = {c: [] for c in contenders}
        for _ in range(given.rounds):
            for contender in contenders:
                found[contender].append(measured(pythons[contender.split()[0]], contender, name))
        print(f"| {name} |", " | ".join(cell(found[c]) for c in contenders), "|", flush=True)
    if given.json:
        given.json.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
