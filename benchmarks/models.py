"""The networks of `nacre.examples.models` beside torch eager, torch that keeps its memory, and inductor.

    python3 run.py bench models                                      # Nacre
    python3 run.py bench models --peer path/to/python                # and torch, which that Python has
    python3 run.py bench models --peer path/to/python --only vit lstm --modes train
    python3 run.py bench models --table FILE ...                     # docs/performance.md, from files of --json

Nobody tuned these networks.  All contenders start with equal weights, and their first results must agree.  Each has a
process of its own; they take turns, and the first step of a turn is not counted.  The table shows the least and the
median time of a step in milliseconds, and the peak memory of each process in MiB, imports and compilation included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import numpy as np

THREADS = 2
ROOT = Path(__file__).parents[1]
PAGE, TWINS = ROOT / "docs" / "performance.md", ROOT / "tests" / "peers"  # `torch_models.py` has the networks in torch
MODES = ("train", "infer")
ALIKE = 1e-3  # the relative difference of two results that agree
# glibc gives large blocks back to the system when they are freed, unless it is told otherwise
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "67108864"}
CONTENDERS: dict[str, dict[str, str]] = {"nacre": {}, "torch": {}, "torch, memory kept": KEEP, "inductor": {}}

Step = Callable[[], float]


class Row(NamedTuple):
    """A block of MobileNetV3, as `Bottleneck`."""

    kernel: int
    expanded: int
    channels: int
    excited: bool
    swish: bool
    stride: int


ROWS = (
    Row(3, 16, 16, False, False, 1),
    Row(3, 64, 24, False, False, 2),
    Row(3, 72, 24, False, False, 1),
    Row(5, 72, 40, True, False, 2),
    Row(5, 120, 40, True, False, 1),
    Row(5, 120, 40, True, False, 1),
    Row(3, 240, 80, False, True, 2),
    Row(3, 200, 80, False, True, 1),
    Row(3, 184, 80, False, True, 1),
    Row(3, 184, 80, False, True, 1),
    Row(3, 480, 112, True, True, 1),
    Row(3, 672, 112, True, True, 1),
    Row(5, 672, 160, True, True, 2),
    Row(5, 960, 160, True, True, 1),
    Row(5, 960, 160, True, True, 1),
)  # the large network of the paper


class LlamaSizes(NamedTuple):
    """The sizes of a Llama, as `LlamaConfig`."""

    vocab_size: int = 8192
    hidden_size: int = 512
    intermediate_size: int = 1408
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0


class BertSizes(NamedTuple):
    """The sizes of a BERT, as `BertConfig`."""

    vocab_size: int = 8192
    hidden_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    max_position_embeddings: int = 256
    type_vocab_size: int = 2
    dropout: float = 0.0
    layer_norm_eps: float = 1e-12


class Case(NamedTuple):
    """A network: how Nacre and torch make it, its inputs, and its targets.

    Targets of integers are classes, on `axis` of the scores; others are compared by squares.
    """

    ours: Callable[[Any], Any]  # from the module of `nacre.examples.models`
    theirs: Callable[[Any], Any]  # from the module `torch_models`
    module: str
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    targets: Callable[[np.random.Generator], np.ndarray]
    axis: int = -1
    alike: float = ALIKE


def _images(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.standard_normal(shape).astype(np.float32),)


def _classes(classes: int, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.integers(0, classes, shape)


def _tokens(words: int, *shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.integers(1, words, shape),)


def _padded(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    mask = (np.arange(128) < rng.integers(64, 129, (8, 1))).astype(np.int64)
    return rng.integers(1, BertSizes().vocab_size, mask.shape) * mask, mask


def _mixture(way: str, room: float | None, tokens: int, alike: float = ALIKE) -> Case:
    """Experts of width 256 and 512, two of 8 for each token; torch's run one after another, except for one-hot ones."""

    def theirs(m: Any) -> Any:
        """The network in torch."""
        sizes = 256, 512, 8, 2
        return m.OneHotExperts(*sizes, room) if way == "onehot" else m.MixtureOfExperts(*sizes)

    return Case(
        lambda m: m.MixtureOfExperts(256, 512, 8, 2, way, room=room),
        theirs,
        "experts",
        _images(tokens, 256),
        lambda rng: rng.standard_normal((tokens, 256)).astype(np.float32),
        alike=alike,
    )


CASES = {
    "vit": Case(
        lambda m: m.VisionTransformer(224, 16, 4, 384, 6, 1536, 0.0, 1000),
        lambda m: m.VisionTransformer(224, 16, 4, 384, 6, 1536, 1000),
        "vit",
        _images(4, 3, 224, 224),
        _classes(1000, 4),
    ),
    "mobilenet": Case(
        lambda m: m.MobileNetV3([m.Bottleneck(*row) for row in ROWS], 1280, 1000, 0.0),
        lambda m: m.MobileNetV3(ROWS, 1280, 1000),
        "mobilenet",
        _images(8, 3, 160, 160),
        _classes(1000, 8),
    ),
    "unet": Case(
        lambda m: m.UNet(3, 2, 16),
        lambda m: m.UNet(3, 2, 16),
        "unet",
        _images(2, 3, 150, 170),
        _classes(2, 2, 150, 170),
        axis=1,
    ),
    "lstm": Case(
        lambda m: m.LstmLanguageModel(10000, 650, 650, 2, 0.0),
        lambda m: m.LstmLanguageModel(10000, 650, 650, 2),
        "lstm",
        _tokens(10000, 35, 20),
        _classes(10000, 35, 20),
    ),
    "llama": Case(
        lambda m: m.Llama(m.LlamaConfig(*LlamaSizes())),
        lambda m: m.Llama(LlamaSizes()),
        "llama",
        _tokens(LlamaSizes().vocab_size, 2, 256),
        _classes(LlamaSizes().vocab_size, 2, 256),
    ),
    "bert": Case(
        lambda m: m.BertForMaskedLM(m.BertConfig(*BertSizes())),
        lambda m: m.BertForMaskedLM(BertSizes()),
        "bert",
        _padded,
        _classes(BertSizes().vocab_size, 8, 128),
    ),
    "experts-onehot": _mixture("onehot", 1.25, 512),
    # tokens beyond the room of an expert skip it, and torch's twin has none that do
    "experts-scatter": _mixture("scatter", 1.25, 512, alike=0.5),
    "experts-gather": _mixture("gather", None, 256),
    "experts-gather-few": _mixture("gather", None, 16),
}


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of a named parameter: a scale is 1, a bias 0, others are random, by their name."""
    if len(shape) < 2:
        return np.full(shape, float(name.endswith("weight")), np.float32)
    fan = np.prod(shape[1:]) if len(shape) == 4 else shape[-1]
    numbers = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32)
    numbers /= np.sqrt(fan)
    return numbers


def loss_of(functions: Any, case: Case, found: Any, y: Any) -> Any:
    """The loss, by the functions of a library; a network may return its state beside its scores."""
    found = found[0] if isinstance(found, tuple) else found
    if case.module == "experts":
        return functions.mse_loss(found, y)
    if case.axis == -1:
        return functions.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))
    return functions.cross_entropy(found, y)


def of_nacre(case: Case, mode: str) -> Step:
    """A step of Nacre, compiled."""
    import nacre as nc

    nc.set_threads(THREADS)
    rng = np.random.default_rng(0)
    model = case.ours(import_module(f"nacre.examples.models.{case.module}"))
    for name, p in model.named_parameters():
        p.assign(nc.tensor(weights(name, tuple(map(int, p.shape)))))
    inputs, y = tuple(map(nc.asarray, case.inputs(rng))), nc.asarray(case.targets(rng))
    update = nc.optim.AdamW(model.parameters(), lr=1e-4)

    @nc.jit
    def train(y: Any, *inputs: Any) -> Any:
        loss = loss_of(nc.nn.functional, case, model(*inputs), y)
        loss.backward()
        update.step()
        update.zero_grad()
        return loss

    @nc.jit
    @nc.no_grad()
    def infer(*inputs: Any) -> Any:
        found = model(*inputs)
        return found[0] if isinstance(found, tuple) else found

    if mode == "train":
        return lambda: train(y, *inputs).item()
    model.eval()
    return lambda: _sample(infer(*inputs).numpy())


def _sample(found: np.ndarray) -> float:
    """One number of a result, by which two contenders are compared; cheap, because it is timed."""
    return float(np.abs(found.reshape(-1)[:100]).sum())


def of_torch(case: Case, mode: str, compiled: bool) -> Step:
    """A step of torch, eager or compiled by inductor."""
    sys.path.insert(0, str(TWINS))
    torch: Any = import_module("torch")
    torch.set_num_threads(THREADS)
    rng = np.random.default_rng(0)
    model = case.theirs(import_module("torch_models"))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(weights(name, tuple(p.shape))))
    inputs, y = [torch.from_numpy(x) for x in case.inputs(rng)], torch.from_numpy(case.targets(rng))
    if inputs[0].ndim == 4 and not compiled:
        model = model.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
    update = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def loss(y: Any, *inputs: Any) -> Any:
        return loss_of(torch.nn.functional, case, model(*inputs), y)

    if mode == "train":
        forward = torch.compile(loss, dynamic=False) if compiled else loss

        def train() -> float:
            found = forward(y, *inputs)
            found.backward()
            update.step()
            update.zero_grad()
            return found.item()

        return train
    model.eval()
    if compiled:
        import_module("torch._inductor.config").freezing = True
        model = torch.compile(model, dynamic=False)

    def infer() -> float:
        with torch.no_grad() if compiled else torch.inference_mode():
            found = model(*inputs)
        return _sample((found[0] if isinstance(found, tuple) else found).numpy())

    return infer


def peak() -> float:
    """The most memory of this process that was resident at a time, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1024


def work(contender: str, name: str, mode: str) -> None:
    """Answer lines of standard input: the seconds of a turn → the times of its steps and the peak memory."""
    case = CASES[name]
    step = of_nacre(case, mode) if contender == "nacre" else of_torch(case, mode, contender == "inductor")
    start = time.perf_counter()
    result = step()
    print(json.dumps({"result": result, "first": time.perf_counter() - start}), flush=True)
    step()
    for line in sys.stdin:
        end, times = time.perf_counter() + float(line), list[float]()
        step()
        while time.perf_counter() < end or len(times) < 2:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(json.dumps({"times": times, "peak": peak()}), flush=True)


class Process:
    """A contender at work on one network."""

    def __init__(self, python: str, contender: str, name: str, mode: str) -> None:
        line = [python, __file__, "--work", contender, "--only", name, "--modes", mode]
        self.process = subprocess.Popen(
            line, env=os.environ | CONTENDERS[contender], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.PIPE if contender == "inductor" else None,
        )  # fmt: skip
        self.times: list[float] = []
        self.peak = 0.0
        begun = self.answer()
        self.result, self.first = begun.get("result"), begun.get("first", 0.0)

    def answer(self) -> dict[str, Any]:
        """The next line of the process; empty where it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def turn(self, seconds: float) -> None:
        """Run steps for about the given time."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        found = self.answer()
        self.times += found["times"]
        self.peak = found["peak"]

    def end(self) -> None:
        """Let the process leave."""
        self.process.communicate()


def measure(name: str, mode: str, python: str | None, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """The least and the median time, the first step's, and the peak memory of each contender."""
    running = {"nacre": Process(sys.executable, "nacre", name, mode)}
    for contender in list(CONTENDERS)[1:] if python else []:
        running[contender] = Process(str(python), contender, name, mode)
    expected = running["nacre"].result
    assert expected is not None, f"{name}: Nacre's process has failed"
    for contender, process in list(running.items()):
        if process.result is None:
            print(f"{name}, {mode}: {contender} fails", file=sys.stderr)
            running.pop(contender).end()
        elif abs(process.result - expected) > CASES[name].alike * abs(expected):
            print(f"{name}, {mode}: {contender} finds {process.result}, Nacre {expected}", file=sys.stderr)
    for _ in range(rounds):
        for process in running.values():
            process.turn(seconds)
    for process in running.values():
        process.end()
    return {
        contender: {"least": min(p.times), "median": median(p.times), "first": p.first, "peak": p.peak}
        for contender, p in running.items()
    }


def best(found: dict[str, dict[str, float]], key: str) -> float:
    """The least number of the other contenders over Nacre's."""
    return min(numbers[key] for contender, numbers in found.items() if contender != "nacre") / found["nacre"][key]


def cells(found: dict[str, dict[str, float]]) -> Iterator[str]:
    """The cells of a line of the table: each contender, then the ratios to the best of the others."""
    for contender in CONTENDERS:
        if contender in found:
            it = found[contender]
            yield f"{1e3 * it['least']:.2f} / {1e3 * it['median']:.2f}, {it['peak']:.0f}"
        else:
            yield "–"
    for key in ("least", "median", "peak"):
        if len(found) < 2:
            yield "–"
            continue
        ratio = best(found, key)
        yield f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}"


def put(lines: Sequence[str], name: str, page: Path) -> None:
    """Write lines into a page, between the marks of this name."""
    text, marks = page.read_text(encoding="utf-8"), (f"<!-- {name} -->\n", f"<!-- {name} end -->")
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    if not after:
        raise SystemExit(f"{name}: the page must have {marks[0].strip()} and {marks[1]}; got {page}")
    page.write_text("\n".join([before + marks[0], *lines, "", marks[1] + after]), encoding="utf-8")


def table(files: Sequence[Path]) -> Iterator[str]:
    """The table of measured times, in Markdown; a later file counts where several have a network."""
    every: dict[str, dict[str, dict[str, float]]] = {}
    for file in files:
        every.update(json.loads(file.read_text(encoding="utf-8")))
    every = {
        f"{name}, {mode}": every[f"{name}, {mode}"] for name in CASES for mode in MODES if f"{name}, {mode}" in every
    }
    yield from headline()
    for name, found in every.items():
        yield f"| {name} | {' | '.join(cells(found))} |"
    means = [f"{geometric_mean([best(found, key) for found in every.values()]):.2f}" for key in ("least", "median")]
    yield f"| geometric mean |{' |' * len(CONTENDERS)} {means[0]} | {means[1]} | |"


def headline() -> tuple[str, str]:
    """The first two lines of the table."""
    head = ["least / median ms, peak MiB", *CONTENDERS, "best other's least", "median", "peak, over nacre's"]
    return f"| {' | '.join(head)} |", "|---" * len(head) + "|"


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python that has torch")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="write docs/performance.md from these")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--work", choices=CONTENDERS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        work(given.work, given.only[0], given.modes[0])
        return 0
    if given.table:
        put(list(table(given.table)), "models", given.page)
        return 0
    found: dict[str, dict[str, dict[str, float]]] = {}
    print("\n".join(headline()))
    for name in given.only:
        for mode in given.modes:
            key = f"{name}, {mode}"
            found[key] = measure(name, mode, given.peer, given.rounds, given.seconds)
            print(f"| {key} |", " | ".join(cells(found[key])), "|", flush=True)
    if given.peer:
        ratios = [best(of, "least") for of in found.values()]
        print(f"\nGeometric mean of the least times' ratios: {geometric_mean(ratios):.2f}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
