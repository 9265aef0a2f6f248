"""Writes torch_names.json: PyTorch's results for calls by its own keywords.  Needs torch; the tests do not."""

from __future__ import annotations

import json
from pathlib import Path

import torch

X = torch.tensor([[[1.0, -2.0, 3.5], [0.5, 4.0, -1.0]], [[2.5, 0.0, -3.0], [6.0, -0.5, 1.5]]])
F = torch.nn.functional
CALLS = {
    **{
        f"nc.{name}(x, {form})": getattr(torch, name)
        for name in ("sum", "mean", "prod", "any", "all", "logsumexp", "argmax", "argmin")
        for form in ("dim=1", "1", "dim=-1, keepdim=True", "-1, keepdim=True")
    },
    **{
        f"x.{name}({form})": None
        for name in ("sum", "mean", "prod", "any", "all", "argmax", "argmin")
        for form in ("dim=1", "1", "dim=-1, keepdim=True")
    },
    **{f"nc.{name}(x, dim=1, correction=1)": None for name in ("std", "var")},
    **dict.fromkeys(
        [
            "nc.count_nonzero(x, dim=1)",
            "nc.count_nonzero(x, 1)",
            "nc.argsort(x, dim=1)",
            "nc.argsort(x, 1)",
            "nc.flip(x, dims=(0, 2))",
            "nc.flip(x, (0, 2))",
            "nc.roll(x, 1, dims=2)",
            "nc.roll(x, shifts=1, dims=2)",
            "nc.roll(x, 1, 2)",
            "nc.concat([x, x], dim=1)",
            "nc.concat([x, x], 1)",
            "nc.stack([x, x], dim=1)",
            "nc.stack([x, x], 1)",
            "nc.squeeze(x[:1], dim=0)",
            "nc.flatten(x, start_dim=1)",
            "nc.flatten(x, 0, 1)",
            "nc.topk(x, 2, dim=1)[0]",
            "nc.topk(x, 2, 1)[1]",
            "F.softmax(x, dim=1)",
            "F.softmax(x, 1)",
            "F.log_softmax(x, dim=0)",
            "F.softmin(x, dim=1)",
            "F.glu(x[:, :, :2], dim=1)",
            "F.normalize(x, dim=1)",
            "F.cosine_similarity(x, x + 1, dim=1)",
            "x.flatten(start_dim=1)",
            "x.view(2, 6)",
            "x.squeeze(dim=())",
        ]
    ),
}

if __name__ == "__main__":
    found = {text: eval(text, {"nc": torch, "F": F, "x": X}).tolist() for text in CALLS}
    Path(__file__).with_name("torch_names.json").write_text(
        json.dumps({"torch": torch.__version__, "x": X.tolist(), "calls": found}) + "\n"
    )
