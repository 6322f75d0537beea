"""The llama architecture in PyTorch: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied embeddings."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from config import ModelConfig

# The number of queries per chunk in attention.
CHUNK = 256


def rope_tables(config: ModelConfig) -> tuple[Tensor, Tensor]:
    """cos and sin, each [context_length, head_size / 2]."""
    exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    angles = torch.outer(torch.arange(config.context_length, dtype=torch.float32), config.rope_base**-exponents)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (i, i + head_size / 2) of x [batch, time, heads, head_size]; cos, sin [time, 1, head_size / 2]."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q, k, v [batch, time, heads, head_size] -> [batch, time, heads * head_size].

    On a CPU, plain products are used, for CHUNK queries at a time against the preceding keys: forward and backward together took a third of the
    fused attention's time at 128 tokens and three quarters at 1,024.
    """
    batch, time, num_heads, head_size = q.shape
    if q.is_cuda:
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2).flatten(2)
    q, k, v = (y.transpose(1, 2).reshape(batch * num_heads, time, head_size) for y in (q * head_size**-0.5, k, v))
    parts = []
    for begin in range(0, time, CHUNK):
        end = min(begin + CHUNK, time)
        future = torch.full((end - begin, end), float("-inf"), dtype=q.dtype, device=q.device).triu(begin + 1)
        scores = torch.baddbmm(future, q[:, begin:end], k[:, :end].mT)
        parts.append(scores.softmax(-1).to(v.dtype) @ v[:, :end])
    out = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
    return out.view(batch, num_heads, time, head_size).transpose(1, 2).reshape(batch, time, -1)


class Layer(nn.Module):
    """One block. Matrices that read the same input are rows of one parameter."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.attn_norm = nn.Parameter(torch.ones(config.hidden_size))
        self.ffn_norm = nn.Parameter(torch.ones(config.hidden_size))
        # Rows: queries, keys, values.
        self.qkv = nn.Linear(config.hidden_size, config.hidden_size + 2 * config.kv_size, bias=False)
        self.o = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        # Rows: gate, up.
        self.gate_up = nn.Linear(config.hidden_size, 2 * config.ffn_size, bias=False)
        self.down = nn.Linear(config.ffn_size, config.hidden_size, bias=False)

    def sections(self) -> dict[str, tuple[nn.Parameter, slice]]:
        """GGUF's names of the matrices -> the parameter and its rows."""
        hidden, kv, ffn = self.config.hidden_size, self.config.kv_size, self.config.ffn_size
        return {
            "attn_q": (self.qkv.weight, slice(0, hidden)),
            "attn_k": (self.qkv.weight, slice(hidden, hidden + kv)),
            "attn_v": (self.qkv.weight, slice(hidden + kv, hidden + 2 * kv)),
            "attn_output": (self.o.weight, slice(0, hidden)),
            "ffn_gate": (self.gate_up.weight, slice(0, ffn)),
            "ffn_up": (self.gate_up.weight, slice(ffn, 2 * ffn)),
            "ffn_down": (self.down.weight, slice(0, hidden)),
        }

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [batch, time, num_heads, head_size]; keys and values are repeated for the heads that share them."""
        config = self.config
        h = F.rms_norm(x, x.shape[-1:], self.attn_norm, config.norm_eps)
        parts = self.qkv(h).split([config.hidden_size, config.kv_size, config.kv_size], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, config.head_size)) for part in parts)
        group = config.num_heads // config.num_kv_heads
        k, v = (y.repeat_interleave(group, dim=2) if group > 1 else y for y in (rotate(k, cos, sin), v))
        return rotate(q, cos, sin), k, v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.o(attended)
        h = F.rms_norm(x, x.shape[-1:], self.ffn_norm, self.config.norm_eps)
        gate, up = self.gate_up(h).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Mill(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.final_norm = nn.Parameter(torch.ones(config.hidden_size))
        cos, sin = rope_tables(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.embed.weight, std=0.02)
        for layer in self.layers:
            for matrix in (layer.qkv.weight, layer.gate_up.weight):
                nn.init.normal_(matrix, std=0.03)
            # Matrices that add to the residual stream start small, so that depth does not change its scale.
            for matrix in (layer.o.weight, layer.down.weight):
                nn.init.normal_(matrix, std=0.005)

    def hidden(self, ids: Tensor, past: list[tuple[Tensor, Tensor]] | None = None, inputs: list[Tensor] | None = None) -> Tensor:
        """[batch, time] token ids -> [batch, time, hidden_size] after the final norm. Appends each layer's projected keys and values to `past`, and its
        input to `inputs`."""
        cos, sin = self.cos[: ids.shape[1], None], self.sin[: ids.shape[1], None]
        x = self.embed(ids)
        for layer in self.layers:
            if inputs is not None:
                inputs.append(x)
            q, k, v = layer.project(x, cos, sin)
            if past is not None:
                past.append((k, v))
            x = layer.finish(x, causal_attention(q, k, v))
        return F.rms_norm(x, x.shape[-1:], self.final_norm, self.config.norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., hidden_size] -> [..., vocab_size]."""
        return F.linear(hidden, self.embed.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """[batch, time] -> logits [batch, time, vocab_size]."""
        return self.logits(self.hidden(ids))

    def compile_layers(self) -> None:
        """Fuses the operations between the products; attention is not compiled, so that one compiled form serves all lengths."""
        for layer in self.layers:
            layer.project = torch.compile(layer.project, dynamic=True)
            layer.finish = torch.compile(layer.finish, dynamic=True)

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())
