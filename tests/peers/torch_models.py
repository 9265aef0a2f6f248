"""The networks of `nacre.examples.models` in PyTorch, from its own layers where it has them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

# ---- a vision transformer


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Identity(), nn.Linear(hidden, width), nn.Identity()
        )

    def forward(self, x: Any) -> Any:
        y = self.ln_1(x)
        x = self.self_attention(y, y, y)[0] + x
        return self.mlp(self.ln_2(x)) + x


class VisionTransformer(nn.Module):
    def __init__(self, size: int, patch: int, layers: int, width: int, heads: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width))
        blocks = {f"encoder_layer_{k}": EncoderBlock(width, heads, hidden) for k in range(layers)}
        self.encoder.layers = nn.Sequential(OrderedDict(blocks))
        self.encoder.ln = nn.LayerNorm(width, 1e-6)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(width, classes)))

    def forward(self, x: Any) -> Any:
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.repeat(len(x), 1, 1), patches], 1) + self.encoder.pos_embedding
        return self.heads(self.encoder.ln(self.encoder.layers(x))[:, 0])


# ---- MobileNetV3


def convolution(inward: int, outward: int, kernel: int, stride: int, groups: int, activation: Any) -> nn.Sequential:
    conv = nn.Conv2d(inward, outward, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    layers = [conv, nn.BatchNorm2d(outward, 0.001, 0.01)]
    return nn.Sequential(*layers, activation()) if activation else nn.Sequential(*layers)


class Squeeze(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Any) -> Any:
        return F.hardsigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True))))) * x


class Inverted(nn.Module):
    def __init__(self, inward: int, row: Any) -> None:
        super().__init__()
        kernel, wide, outward = row.kernel, row.expanded, row.channels
        act = nn.Hardswish if row.swish else nn.ReLU
        self.residual = inward == outward and row.stride == 1
        parts: list[nn.Module] = [] if wide == inward else [convolution(inward, wide, 1, 1, 1, act)]
        parts += [convolution(wide, wide, kernel, row.stride, wide, act)]
        narrow = max(8, (wide // 4 + 4) // 8 * 8)  # 10 % less at most
        narrow += 8 if 10 * narrow < 9 * (wide // 4) else 0
        parts += [Squeeze(wide, narrow)] if row.excited else []
        self.block = nn.Sequential(*parts, convolution(wide, outward, 1, 1, 1, None))

    def forward(self, x: Any) -> Any:
        return self.block(x) + x if self.residual else self.block(x)


class MobileNetV3(nn.Module):
    def __init__(self, rows: Sequence[Any], last: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [convolution(3, 16, 3, 2, 1, nn.Hardswish)]
        channels = 16
        for row in rows:
            layers.append(Inverted(channels, row))
            channels = row.channels
        self.features = nn.Sequential(*layers, convolution(channels, 6 * channels, 1, 1, 1, nn.Hardswish))
        self.classifier = nn.Sequential(
            nn.Linear(6 * channels, last), nn.Hardswish(), nn.Identity(), nn.Linear(last, classes)
        )

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x).mean((2, 3)))


# ---- U-Net


class Double(nn.Module):
    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        pair = ((inward, outward), (outward, outward))
        self.double_conv = nn.Sequential(
            *(m for i, o in pair for m in (nn.Conv2d(i, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()))
        )

    def forward(self, x: Any) -> Any:
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inward: int) -> None:
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), Double(inward, 2 * inward))

    def forward(self, x: Any) -> Any:
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inward: int) -> None:
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(inward, inward // 2, 2, 2), Double(inward, inward // 2)

    def forward(self, x: Any, skipped: Any) -> Any:
        x = self.up(x)
        high, wide = (skipped.size(axis) - x.size(axis) for axis in (2, 3))
        return self.conv(torch.cat([skipped, F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])], 1))


class UNet(nn.Module):
    def __init__(self, channels: int, classes: int, first: int) -> None:
        super().__init__()
        self.inc = Double(channels, first)
        for k in range(4):
            setattr(self, f"down{k + 1}", Down(first << k))
            setattr(self, f"up{k + 1}", Up(first << (4 - k)))
        self.outc = nn.Module()
        self.outc.conv = nn.Conv2d(first, classes, 1)

    def forward(self, x: Any) -> Any:
        seen = [self.inc(x)]
        for k in range(4):
            seen.append(getattr(self, f"down{k + 1}")(seen[-1]))
        x = seen.pop()
        for k in range(4):
            x = getattr(self, f"up{k + 1}")(x, seen.pop())
        return self.outc.conv(x)


# ---- a language model of LSTM layers


class LstmLanguageModel(nn.Module):
    def __init__(self, vocabulary: int, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(vocabulary, width), nn.LSTM(width, hidden, layers)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Any, state: Any = None) -> Any:
        y, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(y), state


# ---- Llama


class Llama(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.theta, size = c.rope_theta, c.hidden_size // c.num_attention_heads
        self.size = size
        inward, narrow, wide = c.hidden_size, c.num_key_value_heads * size, c.intermediate_size
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c.vocab_size, inward)
        self.model.layers = nn.ModuleList()
        for _ in range(c.num_hidden_layers):
            layer = nn.Module()
            layer.self_attn, layer.mlp = nn.Module(), nn.Module()
            for name, i, o in (
                ("q", inward, inward),
                ("k", inward, narrow),
                ("v", inward, narrow),
                ("o", inward, inward),
            ):
                setattr(layer.self_attn, f"{name}_proj", nn.Linear(i, o, bias=False))
            for name, i, o in (("gate", inward, wide), ("up", inward, wide), ("down", wide, inward)):
                setattr(layer.mlp, f"{name}_proj", nn.Linear(i, o, bias=False))
            layer.input_layernorm = nn.RMSNorm(inward, c.rms_norm_eps)
            layer.post_attention_layernorm = nn.RMSNorm(inward, c.rms_norm_eps)
            self.model.layers.append(layer)
        self.model.norm, self.lm_head = nn.RMSNorm(inward, c.rms_norm_eps), nn.Linear(inward, c.vocab_size, bias=False)

    def turned(self, x: Any) -> Any:
        """Pairs of elements as complex numbers, rotated by their angles."""
        half = x.shape[-1] // 2
        powers = torch.arange(half, dtype=torch.float32) / half
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float32), self.theta**-powers)
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1)

    def forward(self, ids: Any) -> Any:
        n, t = ids.shape
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            a, y = layer.self_attn, layer.input_layernorm(x)
            q, k, v = (p(y).view(n, t, -1, self.size).transpose(1, 2) for p in (a.q_proj, a.k_proj, a.v_proj))
            q, k, more = self.turned(q), self.turned(k), q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(more, 1), v.repeat_interleave(more, 1)
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
            x = x + a.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, -1))
            m, y = layer.mlp, layer.post_attention_layernorm(x)
            x = x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y))
        return self.lm_head(self.model.norm(x))


# ---- BERT


def module(**children: Any) -> nn.Module:
    """A module that only holds others."""
    made = nn.Module()
    for name, child in children.items():
        setattr(made, name, child)
    return made


class BertForMaskedLM(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.heads, width, wide = c.num_attention_heads, c.hidden_size, c.intermediate_size

        def norm() -> nn.Module:
            return nn.LayerNorm(width, c.layer_norm_eps)

        words = nn.Embedding(c.vocab_size, width, padding_idx=0)
        embeddings = module(
            word_embeddings=words,
            position_embeddings=nn.Embedding(c.max_position_embeddings, width),
            token_type_embeddings=nn.Embedding(c.type_vocab_size, width),
            LayerNorm=norm(),
        )
        layers = nn.ModuleList()
        for _ in range(c.num_hidden_layers):
            query, key, value = (nn.Linear(width, width) for _ in range(3))
            attention = module(output=module(dense=nn.Linear(width, width), LayerNorm=norm()))
            attention.self = module(query=query, key=key, value=value)
            intermediate, output = (
                module(dense=nn.Linear(width, wide)),
                module(dense=nn.Linear(wide, width), LayerNorm=norm()),
            )
            layers.append(module(attention=attention, intermediate=intermediate, output=output))
        self.bert = module(embeddings=embeddings, encoder=module(layer=layers))
        decoder = nn.Linear(width, c.vocab_size)
        decoder.weight = words.weight
        transform = module(dense=nn.Linear(width, width), LayerNorm=norm())
        self.cls = module(predictions=module(transform=transform, decoder=decoder))
        self.cls.predictions.bias = decoder.bias

    def forward(self, ids: Any, mask: Any) -> Any:
        e, p = self.bert.embeddings, self.cls.predictions
        n, t = ids.shape
        places = e.position_embeddings.weight[:t]
        x = e.LayerNorm(e.word_embeddings(ids) + places + e.token_type_embeddings.weight[0])
        for layer in self.bert.encoder.layer:
            a, o = layer.attention.self, layer.attention.output
            q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (a.query, a.key, a.value))
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(mask[:, None, None] == 0, -torch.inf)
            x = o.LayerNorm(o.dense((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, -1)) + x)
            x = layer.output.LayerNorm(layer.output.dense(F.gelu(layer.intermediate.dense(x))) + x)
        return p.decoder(p.transform.LayerNorm(F.gelu(p.transform.dense(x))))


# ---- a mixture of experts


class MixtureOfExperts(nn.Module):
    def __init__(self, width: int, hidden: int, count: int, chosen: int) -> None:
        super().__init__()
        self.chosen, self.gate = chosen, nn.Linear(width, count, bias=False)
        self.experts = nn.Module()
        self.experts.gate_up_proj = nn.Parameter(torch.randn(count, 2 * hidden, width) * 0.3)
        self.experts.down_proj = nn.Parameter(torch.randn(count, width, hidden) * 0.3)

    def forward(self, x: Any) -> Any:
        """Expert after expert, as a loop."""
        rows = x.flatten(0, -2)
        shares, picked = self.gate(rows).softmax(-1).topk(self.chosen)
        shares = shares / shares.sum(-1, keepdim=True)
        y = torch.zeros_like(rows)
        for k, (inward, outward) in enumerate(zip(self.experts.gate_up_proj, self.experts.down_proj)):
            token, choice = torch.where(picked == k)
            gate, up = F.linear(rows[token], inward).chunk(2, -1)
            y = y.index_add(0, token, F.linear(F.silu(gate) * up, outward) * shares[token, choice, None])
        return y.view_as(x)


class OneHotExperts(MixtureOfExperts):
    def __init__(self, width: int, hidden: int, count: int, chosen: int, room: float) -> None:
        super().__init__(width, hidden, count, chosen)
        self.room = room

    def forward(self, x: Any) -> Any:
        """Products with one-hot matrices; tokens beyond the room of an expert skip it."""
        e, count, rows = self.experts, len(self.experts.down_proj), x.flatten(0, -2)
        room = min(len(rows), math.ceil(self.room * len(rows) * self.chosen / count))
        shares, picked = self.gate(rows).softmax(-1).topk(self.chosen)
        shares = shares / shares.sum(-1, keepdim=True)
        taken = F.one_hot(picked.T.flatten(), count)
        places = (((taken.cumsum(0) - taken) * taken).sum(1)).view(self.chosen, -1).T
        picked = F.one_hot(picked, count).to(x.dtype)
        placed = (places[..., None] == torch.arange(room)).to(x.dtype)
        sent = torch.einsum("tke,tkr->ter", picked, placed)
        weighted = torch.einsum("tk,tke,tkr->ter", shares, picked, placed)
        gate, up = (torch.einsum("ter,th->erh", sent, rows) @ e.gate_up_proj.mT).chunk(2, -1)
        y = (F.silu(gate) * up) @ e.down_proj.mT
        return torch.einsum("ter,erh->th", weighted, y).view_as(x)
