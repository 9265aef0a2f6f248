"""A small GPT learns Python's reference manual character by character, and beats an interpolated trigram model.

The text consists of the topics of Python's `help()`, which every installation has.  The baseline is a trigram model
whose weights are fitted on separate text (Jelinek and Mercer 1980).  The GPT must reach a lower loss on text that
neither model has seen.  Losses are in nats per character, over the same characters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

import nacre as nc
from nacre import nn, optim
from nacre.api.tensor import Tensor
from nacre.base.errors import MissingExtra
from nacre.base.records import dataclass
from nacre.data import DataLoader, Dataset
from nacre.examples import Run, Settings
from nacre.train import Trainer

EPOCHS = 6
BATCH = 16
PAGE = 2000  # approximate characters of a page; unseen text consists of pages
HELD_BACK = 10  # one page in this number is not trained on
UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # replaces every character that is not in the training text
PEAK_RATE, LAST_RATE, WARM = 2e-3, 1e-4, 0.05  # learning rates, and the share of updates that leads up to the first
START, SAMPLE, TEMPERATURE = 40, 400, 0.8  # for the sample: characters of unseen text that are read, and then written


# ---- the text


def manual() -> str:
    """Python's reference manual as `help()` shows it, each paragraph once."""
    try:
        topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    except (ImportError, AttributeError) as fault:
        raise MissingExtra(
            f"chargpt: the text of Python's help (pydoc_data) is required; it could not be read ({fault}); install "
            "the whole of Python's standard library"
        ) from None
    paragraphs = "\n\n".join(topics[name].strip("\n") for name in sorted(topics)).split("\n\n")
    return "\n\n".join(dict.fromkeys(paragraphs))  # topics quote each other


def pages(text: str, size: int = PAGE) -> list[str]:
    """Text in pages of whole paragraphs, each with at least `size` characters except the last one."""
    found: list[str] = [""]
    for paragraph in text.split("\n\n"):
        if len(found[-1]) >= size:
            found.append("")
        found[-1] += paragraph + "\n\n"
    return found


def held_back(whole: list[str]) -> tuple[list[str], list[str]]:
    """Pages in two parts: every tenth page, and the others."""
    return ([p for k, p in enumerate(whole) if k % HELD_BACK != HELD_BACK - 1], whole[HELD_BACK - 1 :: HELD_BACK])


@dataclass(frozen=True)
class Alphabet:
    """The known characters, numbered from 0; number 0 stands for all other characters."""

    characters: str

    @classmethod
    def of(cls, text: str) -> Alphabet:
        """The alphabet of a text."""
        return cls(UNKNOWN + "".join(sorted(set(text) - {UNKNOWN})))

    def encode(self, text: str) -> np.ndarray:
        """Characters as int32 numbers."""
        known = {c: k for k, c in enumerate(self.characters)}
        return np.array([known.get(c, 0) for c in text], np.int32)

    def decode(self, numbers: Any) -> str:
        """Numbers as text."""
        return "".join(self.characters[k] for k in numbers)


class Windows(Dataset):
    """Pieces of `length` characters that begin every `stride` characters, each with the characters that follow."""

    def __init__(self, codes: np.ndarray, length: int, stride: int) -> None:
        self.codes, self.length, self.stride = codes, length, stride

    def __len__(self) -> int:
        return max(0, (len(self.codes) - 1 - self.length) // self.stride + 1)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        at = range(len(self))[index] * self.stride
        piece = self.codes[at : at + self.length + 1]
        return piece[:-1], piece[1:]


# ---- the trigram model


class Trigram:
    """Character probabilities after two others: the weighted mean of trigrams, bigrams, single characters, and uniform.

    The weights depend on how often the context was seen.  Expectation maximisation fits them to `held`, with counts of
    `text` alone.  Then both texts are counted.
    """

    ROUNDS = 60

    def __init__(self, text: np.ndarray, held: np.ndarray, size: int) -> None:
        self.size = size
        self._count(text)
        shares, kinds = self._shares(held)
        bins = int(kinds.max()) + 1
        self.weights = np.full((bins, 4), 0.25)
        for _ in range(self.ROUNDS):
            parts = shares * self.weights[kinds]
            parts /= parts.sum(1, keepdims=True)
            sums = np.stack([np.bincount(kinds, parts[:, k], bins) for k in range(4)], 1)
            totals = sums.sum(1, keepdims=True)
            self.weights = np.where(totals > 0, sums / np.maximum(totals, 1.0), self.weights)
        self._count(np.concatenate([text, held]))

    def _count(self, codes: np.ndarray) -> None:
        self.counts = np.zeros((self.size,) * 3, np.int64)
        np.add.at(self.counts, (codes[:-2], codes[1:-1], codes[2:]), 1)

    def _shares(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Four probabilities [n, 4] for each character from the third on, and how often its context was seen [n].

        A context that was never seen has the probabilities of the shorter one.
        """
        a, b, c = codes[:-2], codes[1:-1], codes[2:]
        pairs: np.ndarray = self.counts.sum(0)
        ones: np.ndarray = pairs.sum(0)
        one: np.ndarray = ones[c] / ones.sum()
        before: np.ndarray = pairs.sum(1)[b]
        two: np.ndarray = np.where(before > 0, pairs[b, c] / np.maximum(before, 1), one)
        seen: np.ndarray = self.counts.sum(2)[a, b]
        three: np.ndarray = np.where(seen > 0, self.counts[a, b, c] / np.maximum(seen, 1), two)
        all_alike = np.full(len(c), 1.0 / self.size)
        return np.stack([three, two, one, all_alike], 1), np.frexp(seen.astype(np.float64))[1]

    def probabilities(self, codes: np.ndarray) -> np.ndarray:
        """The probability of each character from the third on [n - 2]."""
        shares, kinds = self._shares(codes)
        return (shares * self.weights[np.minimum(kinds, len(self.weights) - 1)]).sum(1)

    def loss(self, codes: np.ndarray) -> float:
        """The loss in nats of each character from the third on."""
        return float(-np.log(self.probabilities(codes)).mean())


# ---- the GPT


@dataclass(frozen=True)
class Size:
    """The size of the network; `context` is the number of characters that it reads."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    context: int = 128


class Block(nn.Module):
    """Causal self-attention, then a network of two layers, each after a layer norm and with a residual connection."""

    def __init__(self, size: Size) -> None:
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] → the same."""
        n, t, width = x.shape
        parts = nc.reshape(self.inward(self.norm1(x)), (n, t, 3, self.heads, width // self.heads))
        q, k, v = nc.permute_dims(parts, (2, 0, 3, 1, 4))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.outward(nc.reshape(nc.permute_dims(mixed, (0, 2, 1, 3)), (n, t, width)))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """A decoder like GPT-2's: learned positions, blocks, and a last layer that shares the embedding's weights."""

    def __init__(self, alphabet: int, size: Size) -> None:
        self.characters = nn.Embedding(alphabet, size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        for name, parameter in self.named_parameters():
            if name.endswith("weight") and "norm" not in name:
                deep = name.endswith(
                    ("outward.weight", "down.weight")
                )  # the layers whose results the residual connections sum
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * size.layers) if deep else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, codes: Tensor) -> Tensor:
        """Characters [N, T] → scores of the next ones [N, T, alphabet]."""
        x = self.characters(codes) + self.places.weight.value[: codes.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.characters.weight.value.T


def cross_entropy(scores: Tensor, wanted: Tensor) -> Tensor:
    """The loss in nats per character, for scores [N, T, alphabet] and characters [N, T]."""
    return nn.functional.cross_entropy(nc.reshape(scores, (-1, scores.shape[-1])), nc.reshape(wanted, (-1,)))


def written(model: Gpt, alphabet: Alphabet, size: Size, start: str, length: int, seed: int) -> str:
    """Text that the model writes after `start`, one character at a time, drawn by the model's probabilities."""
    scores = nc.jit(model)
    random = np.random.default_rng(seed)
    codes = list(alphabet.encode(start))
    model.eval()
    with nc.no_grad():
        for _ in range(length):
            seen = codes[-size.context :]
            padded = np.array([seen + [0] * (size.context - len(seen))], np.int32)  # the zeros are not read
            last: np.ndarray = scores(nc.asarray(padded)).numpy()[0, len(seen) - 1].astype(np.float64) / TEMPERATURE
            odds = np.exp(last - last.max())
            odds[0] = 0.0  # never the character for unknown ones
            codes.append(int(random.choice(len(odds), p=odds / odds.sum())))
    model.train()
    return alphabet.decode(codes)


# ---- the training


def build(settings: Settings, size: Size = Size(), text: str | None = None) -> Run:
    """The training: AdamW, a warm-up, half a cosine; each epoch sees every character twice."""
    kept, held = held_back(pages(manual() if text is None else text))
    alphabet = Alphabet.of("".join(kept))
    codes, unseen = alphabet.encode("".join(kept)), alphabet.encode("".join(held))
    nc.random.seed(settings.seed)
    model = Gpt(len(alphabet.characters), size)
    batches = DataLoader(
        Windows(codes, size.context, size.context // 2), BATCH, shuffle=True, drop_last=True, seed=settings.seed
    )
    validation = DataLoader(Windows(unseen, size.context, size.context), BATCH)
    optimizer = optim.AdamW(model.parameters(), lr=PEAK_RATE, weight_decay=0.1, betas=(0.9, 0.99))
    updates = settings.epochs * len(batches)
    warm = max(1, round(WARM * updates))
    schedule = optim.SequentialLR(
        optimizer,
        [
            optim.LinearLR(optimizer, 0.01, total_iters=warm),
            optim.CosineAnnealingLR(optimizer, max(1, updates - warm), eta_min=LAST_RATE),
        ],
        [warm],
    )
    trainer = Trainer(
        model, optimizer, cross_entropy, clip_norm=1.0, schedule=schedule, schedule_every="step", **settings.trainer
    )

    def results() -> Mapping[str, Any]:
        """Both losses over the same characters, and a sample of the model's text."""
        own, other = held_back(kept)
        trigram = Trigram(alphabet.encode("".join(own)), alphabet.encode("".join(other)), len(alphabet.characters))
        whole = len(validation.dataset) * size.context  # type: ignore[arg-type]
        found = trainer.validate(validation)["loss"]
        same = np.concatenate([codes[-1:], unseen[: whole + 1]])  # the first two are context
        return {
            "validation_loss": found,
            "trigram_loss": trigram.loss(same),
            "characters": whole,
            "parameters": sum(p.value.size for p in model.parameters()),
            "text": written(model, alphabet, size, held[0][:START], SAMPLE, settings.seed),
        }

    return Run(trainer, batches, validation, results)
