"""The character GPT: its text, its trigram model, and its lower loss; small here, complete in the slow tests."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import MissingExtra
from nacre.cli import main
from nacre.examples import Settings, chargpt
from nacre.examples.chargpt import Alphabet, Gpt, Size, Trigram, Windows

TINY = Size(layers=1, width=16, heads=2, context=16)
TEXT = "\n\n".join(f"for item in range({k}):\n    print(item, {k})" for k in range(700))


def test_no_text_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    paragraphs = chargpt.manual().split("\n\n")
    assert sum(map(len, paragraphs)) > 200_000 and len(paragraphs) == len(set(paragraphs))
    topics = {"b": "\nTwo\n\nOne\n", "a": "One\n\nThree\n\nTwo"}
    monkeypatch.setattr(chargpt, "import_module", lambda _: SimpleNamespace(topics=topics))
    assert chargpt.manual() == "One\n\nThree\n\nTwo"


def test_a_python_without_its_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chargpt, "import_module", lambda _: SimpleNamespace())
    with pytest.raises(MissingExtra, match="pydoc_data"):
        chargpt.manual()


def test_no_page_is_in_two_parts() -> None:
    pages = chargpt.pages(TEXT, 100)
    kept, held = chargpt.held_back(pages)
    assert "".join(pages) == TEXT + "\n\n" and all(len(p) >= 100 for p in pages[:-1])
    assert len(held) == len(pages) // 10 and sorted(kept + held) == sorted(pages) and not set(kept) & set(held)


def test_alphabet_and_windows() -> None:
    alphabet = Alphabet.of("banana")
    assert alphabet.decode(alphabet.encode("cab")) == f"{chargpt.UNKNOWN}ab"
    windows = Windows(np.arange(12, dtype=np.int32), 4, 4)
    assert len(windows) == 2 and len(Windows(np.arange(13), 4, 4)) == 3 and len(Windows(np.arange(3), 4, 4)) == 0
    x, y = windows[1]
    assert x.tolist() == [4, 5, 6, 7] and y.tolist() == [5, 6, 7, 8]
    with pytest.raises(IndexError):
        windows[2]


def test_trigram_probabilities_add_up_and_beat_those_of_characters() -> None:
    kept, held = chargpt.held_back(chargpt.pages(TEXT, 500))
    own, other = chargpt.held_back(kept)
    alphabet = Alphabet.of("".join(kept))
    size = len(alphabet.characters)
    model = Trigram(alphabet.encode("".join(own)), alphabet.encode("".join(other)), size)
    assert np.allclose(model.weights.sum(1), 1) and (model.weights >= 0).all()
    for context in ("or", "n ", "zz", ")p"):
        pair = alphabet.encode(context)
        each = [model.probabilities(np.append(pair, c)).item() for c in range(size)]
        assert sum(each) == pytest.approx(1) and min(each) >= 0
    unseen = alphabet.encode("".join(held))
    ones = np.bincount(alphabet.encode("".join(kept)), minlength=size) + 1
    single = -np.log(ones / ones.sum())[unseen[2:]].mean()
    assert 0 < model.loss(unseen) < 0.6 * single < math.log(size)


def test_later_characters_do_not_change_earlier_scores() -> None:
    nc.random.seed(0)
    model = Gpt(7, TINY)
    codes = np.array([[1, 2, 3, 4, 5, 6]], np.int32)
    other = codes.copy()
    other[0, 4:] = 0
    first, second = (model(nc.asarray(x)).numpy()[0, :4].tobytes() for x in (codes, other))
    assert first == second


def test_a_small_training(tmp_path: Path) -> None:
    """It learns, is resumed with the same bits, and reports both losses of the same characters."""

    def run(epochs: int, out: Path, resume: bool = False) -> tuple[bytes, dict[str, object]]:
        ready = chargpt.build(Settings(0, 3, {"progress": False, "out": out}), TINY, TEXT)
        ready.trainer.fit(ready.training, ready.validation, epochs, resume=resume)
        weights = b"".join(v.numpy().tobytes() for _, v in sorted(ready.trainer.model.state_dict().items()))
        return weights, dict(ready.results()) if epochs == 3 else {}

    whole, told = run(3, tmp_path / "whole")
    run(1, tmp_path / "parts")
    assert run(3, tmp_path / "parts", resume=True) == (whole, told)
    unseen = "".join(chargpt.held_back(chargpt.pages(TEXT))[1])
    assert told["characters"] == (len(unseen) - 1) // TINY.context * TINY.context
    assert 0 < float(str(told["trigram_loss"])) < 1.5 and float(str(told["validation_loss"])) < 2.5 < math.log(30)
    assert str(told["text"]).startswith(unseen[:20]) and len(str(told["text"])) == chargpt.START + chargpt.SAMPLE


@pytest.mark.slow
def test_the_whole_training_beats_the_trigram_model(tmp_path: Path) -> None:
    path = tmp_path / "told.json"
    assert main.main(["train", "chargpt", "--out", str(tmp_path / "run"), "--json", str(path), "--no-color"]) == 0
    found = json.loads(path.read_text())["results"]
    assert found["validation_loss"] < 1.4 < 1.6 < found["trigram_loss"] < 1.9
