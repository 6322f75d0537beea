"""A llama-architecture network, computed from its GGUF file alone: interleaved rotary pairs, float32 arithmetic on the stored weights.

It is independent of the training network, so that agreement between the two verifies the export.
"""

from pathlib import Path

import gguf
import torch
import torch.nn.functional as F
from torch import Tensor

from chats import assemble_tokenizer

# Per layer, the keys and values so far: each [kv heads, time, head size].
KvCache = list[tuple[Tensor, Tensor]]


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (2i, 2i + 1) of x [heads, time, head_size]; cos, sin [time, head_size / 2]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


class Reference:
    def __init__(self, path: Path) -> None:
        reader = gguf.GGUFReader(str(path))
        field = lambda key: reader.get_field(key).contents()
        self.weights = {t.name: torch.from_numpy(t.data.copy()).float() for t in reader.tensors}
        self.num_layers = field("llama.block_count")
        self.num_heads = field("llama.attention.head_count")
        self.num_kv_heads = field("llama.attention.head_count_kv")
        self.norm_eps = field("llama.attention.layer_norm_rms_epsilon")
        self.rope_base = field("llama.rope.freq_base")
        self.head_size = field("llama.rope.dimension_count")
        self.end_id = field("tokenizer.ggml.eos_token_id")
        self.tokenizer = assemble_tokenizer(*(field(f"tokenizer.ggml.{key}") for key in ("pre", "tokens", "merges")))

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weights[name], self.norm_eps)

    @torch.no_grad()
    def forward(self, ids: list[int], cache: KvCache | None = None) -> tuple[Tensor, KvCache]:
        """Logits [time, vocab] of the new ids, and the cache extended by them."""
        num_past = cache[0][0].shape[1] if cache else 0
        positions = torch.arange(num_past, num_past + len(ids), dtype=torch.float32)
        frequencies = self.rope_base ** (-torch.arange(0, self.head_size, 2, dtype=torch.float32) / self.head_size)
        angles = torch.outer(positions, frequencies)
        x = self.weights["token_embd.weight"][ids]
        grown: KvCache = []
        for index in range(self.num_layers):
            block = f"blk.{index}."
            attended, kv = self.attend(block, self.norm(x, f"{block}attn_norm.weight"), angles, cache[index] if cache else None)
            grown.append(kv)
            x = x + attended
            h = self.norm(x, f"{block}ffn_norm.weight")
            gate, up = (h @ self.weights[f"{block}ffn_{name}.weight"].T for name in ("gate", "up"))
            x = x + (F.silu(gate) * up) @ self.weights[f"{block}ffn_down.weight"].T
        return self.norm(x, "output_norm.weight") @ self.weights["token_embd.weight"].T, grown

    def attend(self, block: str, h: Tensor, angles: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        time = h.shape[0]
        cos, sin = angles.cos(), angles.sin()
        project = lambda name, heads: (h @ self.weights[f"{block}attn_{name}.weight"].T).view(time, heads, self.head_size).transpose(0, 1)
        q = rotate_interleaved(project("q", self.num_heads), cos, sin)
        k = rotate_interleaved(project("k", self.num_kv_heads), cos, sin)
        v = project("v", self.num_kv_heads)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=1), torch.cat((past[1], v), dim=1)
        group = self.num_heads // self.num_kv_heads
        scores = q @ k.repeat_interleave(group, 0).mT / self.head_size**0.5
        num_keys = k.shape[1]
        is_future = torch.arange(num_keys) > torch.arange(num_keys - time, num_keys)[:, None]
        weights = scores.masked_fill(is_future, float("-inf")).softmax(-1)
        out = (weights @ v.repeat_interleave(group, 0)).transpose(0, 1).reshape(time, -1)
        return out @ self.weights[f"{block}attn_output.weight"].T, (k, v)

    def generate(self, prompt: str, max_tokens: int = 200, least_lead: float = 0.0) -> list[int]:
        """Greedy ids without the end token, up to the first token that leads the second-best by less than `least_lead` nats."""
        ids = self.tokenizer.encode(prompt).ids
        out: list[int] = []
        cache: KvCache | None = None
        while len(out) < max_tokens:
            logits, cache = self.forward(ids, cache)
            first, second = logits[-1].topk(2).values.tolist()
            token = int(logits[-1].argmax())
            if token == self.end_id or first - second < least_lead:
                break
            out.append(token)
            ids = [token]
        return out
