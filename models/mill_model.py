"""The llama-architecture network of mill-base in PyTorch: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied embeddings."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class MillConfig:
    # Widths are multiples of 256, so that every matrix can be stored in 256-wide quantisation blocks.
    vocab_size: int = 2048
    hidden_size: int = 256
    num_layers: int = 4
    num_heads: int = 8
    num_kv_heads: int = 4
    ffn_size: int = 512
    context_length: int = 1024
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads


def rope_tables(config: MillConfig, num_positions: int) -> tuple[Tensor, Tensor]:
    """cos and sin, each [num_positions, head_size / 2]."""
    exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), config.rope_base**-exponents)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (i, i + head_size/2) of x [batch, heads, time, head_size]; the export permutes rows to interleaved pairs."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(nn.Module):
    def __init__(self, config: MillConfig) -> None:
        super().__init__()
        self.config = config
        kv_size = config.num_kv_heads * config.head_size
        self.attn_norm = nn.Parameter(torch.ones(config.hidden_size))
        self.ffn_norm = nn.Parameter(torch.ones(config.hidden_size))
        self.q = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.gate = nn.Linear(config.hidden_size, config.ffn_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.ffn_size, bias=False)
        self.down = nn.Linear(config.ffn_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attend(F.rms_norm(x, x.shape[-1:], self.attn_norm, self.config.norm_eps), cos, sin)
        h = F.rms_norm(x, x.shape[-1:], self.ffn_norm, self.config.norm_eps)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def attend(self, h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, time, _ = h.shape
        split = lambda y, heads: y.view(batch, time, heads, self.config.head_size).transpose(1, 2)
        q = rotate(split(self.q(h), self.config.num_heads), cos, sin)
        k = rotate(split(self.k(h), self.config.num_kv_heads), cos, sin)
        v = split(self.v(h), self.config.num_kv_heads)
        group = self.config.num_heads // self.config.num_kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).reshape(batch, time, -1))


class Mill(nn.Module):
    def __init__(self, config: MillConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.final_norm = nn.Parameter(torch.ones(config.hidden_size))
        cos, sin = rope_tables(config, config.context_length)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.embed.weight, std=0.02)
        for layer in self.layers:
            for name, matrix in layer.named_parameters():
                if matrix.dim() == 2:
                    # Writers into the residual stream start small, so that depth does not change its scale.
                    is_writer = name in ("o.weight", "down.weight")
                    nn.init.normal_(matrix, std=0.005 if is_writer else 0.03)

    def hidden(self, ids: Tensor) -> Tensor:
        """[batch, time] token ids -> [batch, time, hidden_size] after the final norm."""
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.rms_norm(x, x.shape[-1:], self.final_norm, self.config.norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """[batch, time] -> logits [batch, time, vocab_size]."""
        return F.linear(self.hidden(ids), self.embed.weight)
