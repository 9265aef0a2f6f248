"""Modules that PyTorch and Nacre both construct: lines of text with `nn` and `T`, which creates a tensor."""

from __future__ import annotations

NORMS = ("BatchNorm", "InstanceNorm")
CASES = [
    "nn.Linear(3, 2)", "nn.Linear(3, 2, bias=False)", "nn.Bilinear(2, 3, 4)", "nn.Embedding(5, 3)",
    "nn.EmbeddingBag(5, 3)", "nn.PReLU(3)", "nn.AdaptiveLogSoftmaxWithLoss(32, 20, [5, 10], head_bias=True)",
    *[f"nn.Conv{t}{d}d(4, 6, 3, groups=2)" for t in ("", "Transpose") for d in (1, 2, 3)],
    *[f"nn.{kind}{d}d(4{more})" for kind in NORMS for d in (1, 2, 3)
      for more in ("", ", affine=False", ", affine=True, track_running_stats=True", ", track_running_stats=False")],
    "nn.GroupNorm(2, 4)", "nn.GroupNorm(2, 4, affine=False)", "nn.LayerNorm(4)", "nn.LayerNorm((2, 4), bias=False)",
    "nn.LayerNorm(4, elementwise_affine=False)", "nn.RMSNorm(4)",
    *[f"nn.{kind}(3, 2{more})" for kind in ("RNN", "LSTM", "GRU")
      for more in ("", ", num_layers=2, bidirectional=True", ", num_layers=2, bias=False")],
    "nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)",
    *[f"nn.{kind}Cell(3, 2{more})" for kind in ("RNN", "LSTM", "GRU") for more in ("", ", bias=False")],
    *[f"nn.MultiheadAttention(8, 2{more})" for more in (
        "", ", bias=False", ", add_bias_kv=True", ", kdim=3", ", vdim=5, kdim=3, add_bias_kv=True")],
    *[f"nn.Transformer{part}Layer(8, 2, 16{more})" for part in ("Encoder", "Decoder") for more in ("", ", bias=False")],
    *[f"nn.Transformer{part}(nn.Transformer{part}Layer(8, 2, 16), 2{more})" for part in ("Encoder", "Decoder")
      for more in ("", ", nn.LayerNorm(8)")],
    "nn.Transformer(8, 2, 2, 2, 16)",
    "nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)))",
    "nn.ModuleList([nn.Linear(2, 3), nn.BatchNorm1d(3)])",
    "nn.ModuleDict({'b': nn.Linear(2, 3), 'a': nn.BatchNorm1d(3)})",
    "nn.ParameterList([nn.Parameter(T([1., 2.])), nn.Parameter(T([1.]))])",
    "nn.ParameterDict({'b': nn.Parameter(T([1., 2.])), 'a': nn.Parameter(T([1.]))})",
    *[f"nn.{kind}(weight=T([1., 2.]))" for kind in (
        "CrossEntropyLoss", "NLLLoss", "BCELoss", "MultiMarginLoss", "MultiLabelSoftMarginLoss")],
    "nn.BCEWithLogitsLoss(weight=T([1., 2.]), pos_weight=T([1., 2.]))", "nn.CrossEntropyLoss()",
]  # fmt: skip
