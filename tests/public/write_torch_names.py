"""Writes torch_names.json: PyTorch's results for calls by its own keywords.  Needs torch; the tests do not."""

from __future__ import annotations

import json
from pathlib import Path

import torch

X = torch.tensor([[[1.0, -2.0, 3.5], [0.5, 4.0, -1.0]], [[2.5, 0.0, -3.0], [6.0, -0.5, 1.5]]])
F = torch.nn.functional
OF_ONE = (  # methods without arguments
    "exp tanh sigmoid erf floor ceil round sign abs neg square trunc fix sgn isnan isinf relu double half long int "
    "bool float numel dim clone contiguous cpu ravel element_size nelement"
)
OF_TWO = "add sub mul div eq ne lt le gt ge maximum minimum pow hypot atan2"
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
            *(f"x.{name}()" for name in OF_ONE.split()),
            *(f"x.{name}(y)" for name in OF_TWO.split()),
            *(f"nc.{name}(x, y)" for name in ("mul", "sub", "div", "true_divide", "eq", "ne", "lt", "le", "gt", "ge")),
            "nc.cat([x, x], dim=1)",
            "nc.cat((x, x), -1)",
            "nc.unsqueeze(x, 1)",
            "nc.permute(x, (2, 0, 1))",
            "nc.swapdims(x, 0, 2)",
            "nc.movedim(x, 0, 2)",
            "nc.ravel(x)",
            "nc.unbind(x, dim=1)[2 - 1]",
            "nc.broadcast_tensors(x, x[:1])[1]",
            "nc.take_along_dim(x, i, dim=2)",
            "nc.absolute(x)",
            "nc.neg(x)",
            "nc.clamp(x, -1, 2)",
            "nc.clamp(x, min=0)",
            "nc.sgn(x)",
            "nc.fix(x)",
            "nc.cumsum(x, 1)",
            "nc.cumprod(x, dim=2)",
            "nc.bmm(x, y.swapaxes(1, 2))",
            "nc.mm(x[0], y[0].T)",
            "nc.mv(x[0], y[0, 0])",
            "nc.gather(x, 2, i)",
            "nc.gather(x, 1, i[:, :1, :2] % 2)",
            "nc.index_select(x, 2, i[0, 0])",
            "nc.masked_fill(x, x > 1, -9.0)",
            "nc.masked_select(x, x > 1)",
            "nc.argwhere(x > 1)",
            "nc.narrow(x, 2, 1, 2)",
            "nc.narrow(x, 1, -1, 1)",
            "nc.atleast_1d(x[0, 0, 0])",
            "nc.atleast_2d(x[0, 0])",
            "nc.atleast_3d(x[0, 0])",
            "nc.atleast_3d(x[0])",
            "nc.hstack([x, y])",
            "nc.hstack([x[0, 0], y[0, 0]])",
            "nc.vstack([x[0, 0], y[0, 0]])",
            "nc.row_stack([x, y])",
            "nc.dstack([x[0], y[0]])",
            "nc.column_stack([x[0, 0], y[0, 0]])",
            "nc.column_stack([x[0, 0], y[0].T])",
            "nc.repeat_interleave(x, 2, dim=1)",
            "nc.repeat_interleave(x, 2, 0)",
            "nc.repeat_interleave(x, 2)",
            "nc.dot(x[0, 0], y[0, 0])",
            "nc.inner(x, y)",
            "nc.amax(x, 1)",
            "nc.amin(x, dim=(0, 2), keepdim=True)",
            "nc.isclose(x, x + 1e-9)",
            "nc.isclose(x, y, rtol=2.0)",
            "nc.lerp(x, y, 0.75)",
            "nc.lerp(x, y, y)",
            "nc.deg2rad(x)",
            "nc.rad2deg(x)",
            "nc.softmax(x, dim=1)",
            "nc.log_softmax(x, -1)",
            "nc.relu(x)",
            "nc.arccos(y / 9)",
            "nc.arcsin(y / 9)",
            "nc.arctan(x)",
            "nc.arctan2(x, y)",
            "nc.arctanh(y / 9)",
            "nc.arcsinh(x)",
            "nc.arccosh(x * x + 1)",
            "nc.bitwise_not(i)",
            "x.unsqueeze(-1)",
            "x.expand(3, 2, 2, 3)",
            "x[:, :1].expand(-1, 4, -1)",
            "x[:1].expand_as(y)",
            "x[0].t()",
            "x[0, 0].t()",
            "x.reshape_as(y.flatten())",
            "x.view_as(y)",
            "x.gather(2, i)",
            "x.index_select(1, i[0, 0] * 0)",
            "x.masked_fill(x > 1, 0.5)",
            "x.masked_select(x > 1)",
            "x.softmax(1)",
            "x.log_softmax(dim=0)",
            "x.clamp(-1, 1)",
            "x.clamp_min(0.5)",
            "x.clamp_max(0.5)",
            "x.cumsum(1)",
            "x.cumprod(dim=0)",
            "x.argsort(1)",
            "x.topk(2, 2)[0]",
            "x.flip((0, 2))",
            "x.roll(1, 2)",
            "x.diff(dim=2)",
            "x.logsumexp(1)",
            "x.tril()",
            "x.triu(diagonal=1)",
            "x.type_as(i)",
            "x.to(y)",
            "x.new_full((2,), 3.0)",
            "x.new_zeros(2, 3)",
            "x.new_ones((2, 3))",
            "x.is_floating_point()",
            "x.is_complex()",
            "x.amax(1)",
            "x.unbind(0)[1]",
            "x.swapaxes(0, 1)",
            "x.movedim(0, 1)",
            "x.bmm(y.swapaxes(1, 2))",
            "x.lerp(y, 0.25)",
            "x.allclose(x)",
            "x.narrow(2, 0, 2)",
            "x[0, 0].dot(y[0, 0])",
            "x[0].H",
            "x.isclose(y)",
            "x.repeat_interleave(2, dim=2)",
            "i.bitwise_and(i + 1)",
            "i.bitwise_left_shift(i)",
            "(x > 0).logical_and(y > 0)",
            "x.argwhere()",
            "x.count_nonzero(1)",
        ]
    ),
}

if __name__ == "__main__":
    names = {"nc": torch, "F": F, "x": X, "y": torch.flip(X, (0, 2)) + 0.25, "i": (X.abs() * 2).long() % 3}
    results = {text: eval(text, names) for text in CALLS}
    found = {text: held.tolist() if isinstance(held, torch.Tensor) else held for text, held in results.items()}
    Path(__file__).with_name("torch_names.json").write_text(
        json.dumps({"torch": torch.__version__, "x": X.tolist(), "calls": found}) + "\n"
    )
