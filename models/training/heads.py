"""Heads that guess several tokens from the base's last hidden state: Medusa's blocks, or one EAGLE-style layer that runs ahead of itself.

Both share the base's embeddings and learn the base's distributions on answers; the base stays unchanged. The names of the exported
tensors are in `export_heads`.

For a small base, the output matrix dominates the cost of a guess, so a layer narrower than the base has its own output matrix of its width.
"""

from functools import partial
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from batches import Pass
from config import ModelConfig
from export import interleave, write_file
from network import Mill, causal_attention, rotate
from objectives import Losses, Objective


# Per layer of the base, the keys and values from `Layer.project`.
Past = list[tuple[Tensor, Tensor]]


class MedusaBlock(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size, bias=False)
        # A block begins as the identity.
        nn.init.zeros_(self.linear.weight)

    def sections(self) -> dict[str, tuple[nn.Parameter, slice]]:
        return {"weight": (self.linear.weight, slice(None))}

    def forward(self, h: Tensor) -> Tensor:
        return h + F.silu(self.linear(h))


class MedusaHeads(nn.Module):
    """One block per depth. Block k (from 0 on) guesses the token k + 2 places after the last known one, from that one's hidden state alone."""

    kind = "medusa"

    def __init__(self, config: ModelConfig, num_heads: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(MedusaBlock(config.hidden_size) for _ in range(num_heads))

    @property
    def layers(self) -> nn.ModuleList:
        return self.blocks

    @property
    def num_depths(self) -> int:
        return len(self.blocks)

    def forward(self, base: Mill, hidden: Tensor, past: Past, ids: Tensor) -> list[Tensor]:
        """hidden [rows, time, hidden_size] after the base's final norm -> per head a tensor of that shape, for `logits`."""
        return [block(hidden) for block in self.blocks]

    def logits(self, base: Mill, state: Tensor) -> Tensor:
        return base.logits(state)


class Eagle(nn.Module):
    """One layer that predicts the hidden state of t + 1 from the hidden state of t and token t + 1, and then continues from its own prediction.

    It has queries but no keys and values: all its guesses attend to those of the base's last layer up to t. A narrow layer, with a `width`
    below the base's, uses a separate matrix for its own states.
    """

    kind = "eagle"

    def __init__(self, base: ModelConfig, num_depths: int, width: int) -> None:
        super().__init__()
        self.num_depths = num_depths
        if not 1 <= width <= base.hidden_size or width % 32 != 0:
            raise ValueError(f"expected a width up to {base.hidden_size} that is a multiple of 32, got {width}")
        self.width, self.ffn_size, self.norm_eps = width, width * base.ffn_size // base.hidden_size, base.norm_eps
        # The layer's queries attend to the base's keys, so the shapes must match.
        self.num_heads = base.num_heads
        self.past_layer = base.num_layers - 1
        query_size = base.num_heads * base.head_size
        self.is_narrow = width < base.hidden_size
        if self.is_narrow and num_depths < 2:
            raise ValueError("expected a depth of at least 2 for a layer narrower than the base, which joins its own states, got 1")
        linear = partial(nn.Linear, bias=False)
        self.join_hidden = linear(base.hidden_size, width)
        self.join_embed = linear(base.hidden_size, width)
        if self.is_narrow:
            self.join_state = linear(width, width)
            self.output = linear(width, base.vocab_size)
            nn.init.normal_(self.output.weight, std=0.02)
        self.q = linear(width, query_size)
        self.o = linear(query_size, width)
        # Rows: gate, up.
        self.gate_up = linear(width, 2 * self.ffn_size)
        self.down = linear(self.ffn_size, width)
        for matrix in (self.join_hidden, self.join_embed, self.q, self.gate_up, *([self.join_state] if self.is_narrow else [])):
            nn.init.normal_(matrix.weight, std=0.03)
        for matrix in (self.o, self.down):
            nn.init.normal_(matrix.weight, std=0.005)
        self.embed_norm = nn.Parameter(torch.ones(base.hidden_size))
        self.attn_norm = nn.Parameter(torch.ones(width))
        self.ffn_norm = nn.Parameter(torch.ones(width))
        self.norm = nn.Parameter(torch.ones(width))

    @torch.no_grad()
    def start_from(self, base: Mill) -> None:
        """A narrow layer starts with the principal directions of the base's output matrix."""
        if not self.is_narrow:
            return
        _, _, directions = torch.linalg.svd(base.embed.weight, full_matrices=False)
        directions = directions[: self.width]
        self.output.weight.copy_(base.embed.weight @ directions.T)
        self.join_hidden.weight.copy_(directions)

    def sections(self) -> dict[str, tuple[nn.Parameter, slice]]:
        """GGUF's names of the matrices -> the parameter and its rows."""
        ffn = self.ffn_size
        whole = {"join_hidden": self.join_hidden, "join_embed": self.join_embed, "attn_q": self.q, "attn_output": self.o, "ffn_down": self.down}
        if self.is_narrow:
            whole["join_state"] = self.join_state
        halves = {"ffn_gate": slice(0, ffn), "ffn_up": slice(ffn, 2 * ffn)}
        return {**{name: (matrix.weight, slice(None)) for name, matrix in whole.items()}, **{name: (self.gate_up.weight, rows) for name, rows in halves.items()}}

    @property
    def layers(self) -> list[nn.Module]:
        return [self]

    def forward(self, base: Mill, hidden: Tensor, past: Past, ids: Tensor) -> list[Tensor]:
        """Like MedusaHeads: entry k at time t depends on the base's states up to t and the tokens up to t + k + 1."""
        time = ids.shape[1]
        k, v = past[self.past_layer]
        out: list[Tensor] = []
        state, join_state = hidden, self.join_hidden
        for step in range(self.num_depths):
            # Beyond the row's end any token is fine, because no loss is computed there.
            following = base.embed(F.pad(ids[:, step + 1 :], (0, min(step + 1, time))))
            x = join_state(state) + self.join_embed(self.normed(following, self.embed_norm))
            # The token's own position.
            places = slice(step + 1, step + 1 + time)
            q = self.q(self.normed(x, self.attn_norm)).unflatten(-1, (self.num_heads, -1))
            x = x + self.o(causal_attention(rotate(q, base.cos[places, None], base.sin[places, None]), k, v))
            gate, up = self.gate_up(self.normed(x, self.ffn_norm)).chunk(2, dim=-1)
            x = x + self.down(F.silu(gate) * up)
            state = self.normed(x, self.norm)
            out.append(state)
            join_state = self.join_state if self.is_narrow else self.join_hidden
        return out

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, self.norm_eps)

    def logits(self, base: Mill, state: Tensor) -> Tensor:
        return self.output(state) if self.is_narrow else base.logits(state)


class MatchBase(Objective):
    """KL divergence of each guess from the base's distribution at the guessed position; later guesses have less weight."""

    DISCOUNT = 0.8

    def __init__(self, heads: nn.Module, base: Mill) -> None:
        self.heads, self.base = heads, base
        # By depth: the number of guesses for answer tokens that equal the base's choice, and the number of all guesses.
        self.counts = torch.zeros(heads.num_depths, 2)

    def guesses(self, one: Pass) -> tuple[Tensor, list[Tensor]]:
        """The base's log-probabilities of the token after each of the pass's positions, and the heads' states by depth."""
        past: Past = []
        with torch.no_grad():
            hidden = self.base.hidden(one.ids, past)
            predicted = self.base.logits(hidden.flatten(0, 1)[one.positions]).float().log_softmax(-1)
        return predicted, self.heads(self.base, hidden, past, one.ids)

    def logits(self, state: Tensor) -> Tensor:
        return self.heads.logits(self.base, state)

    def __call__(self, one: Pass) -> Losses:
        rows, time = one.ids.shape
        # At position t the base predicts token t + 1.
        predicted, states = self.guesses(one)
        last = torch.arange(time, device=one.ids.device).repeat(rows)[one.positions]
        total, nll = 0.0, torch.zeros(len(one.positions), device=one.ids.device)
        for depth, state in enumerate(states):
            # The guess made at t - depth - 1 is for the same token.
            can_guess = last >= depth + 1
            wanted = predicted[can_guess]
            got = self.logits(state.flatten(0, 1)[one.positions[can_guess] - depth - 1]).float().log_softmax(-1)
            divergence = F.kl_div(got, wanted, reduction="none", log_target=True).sum(-1)
            total = total + self.DISCOUNT**depth * (divergence * one.weights[can_guess]).sum()
            nll[can_guess] += divergence.detach() / self.heads.num_depths
            is_match = got.argmax(-1) == wanted.argmax(-1)
            self.count(depth, one, can_guess, is_match)
        return Losses(total, nll)

    def count(self, depth: int, one: Pass, can_guess: Tensor, is_match: Tensor) -> None:
        chosen = one.is_answer.to(can_guess.device)[can_guess]
        self.counts[depth, 0] += is_match[chosen].sum().cpu()
        self.counts[depth, 1] += chosen.sum().cpu()

    def take_report(self) -> dict:
        """By depth, the share of guesses for answer tokens that equal the base's choice."""
        rates = (self.counts[:, 0] / self.counts[:, 1].clamp(min=1)).tolist()
        self.counts.zero_()
        return {"agreement": [round(rate, 4) for rate in rates]}


def create_heads(kind: str, config: ModelConfig, num_depths: int, width: int | None = None) -> MedusaHeads | Eagle:
    """`width`: the width of an EAGLE-style layer (default: the base's)."""
    return MedusaHeads(config, num_depths) if kind == "medusa" else Eagle(config, num_depths, width or config.hidden_size)


@torch.no_grad()
def export_heads(heads: MedusaHeads | Eagle, config: ModelConfig, path: Path) -> None:
    """A GGUF file of architecture "mill-heads". Keys: `mill-heads.kind`, `.base` (the base's name), `.embedding_length`, `.vocab_size`, `.depth`, and for eagle
    `.layer_length` (its width), `.past_layer` (of the base, from 1 on), `.feed_forward_length`, `.attention.layer_norm_rms_epsilon`.

    medusa: `heads.K.weight` [hidden, hidden] F16: h + silu(W h), then the base's output matrix.
    eagle: `eagle.join_hidden.weight` and `eagle.join_embed.weight` [layer, hidden], for the hidden state after the base's output_norm and for the
    embedding of the next token, normed by `eagle.embed_norm`; both are added. Then a llama layer under `eagle.` with GGUF's names (attn_norm, ...),
    whose queries at the token's position attend to the keys and values of the base's layer `.past_layer` for all earlier tokens; `eagle.norm`;
    then the base's output matrix. If narrower than the base, it has `eagle.join_state.weight` [layer, layer] for its own states, in place of
    join_hidden, and `eagle.output.weight` [vocabulary, layer] in place of the base's.
    """
    unfinished = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(unfinished), "mill-heads")
    writer.add_name("mill-heads")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_string("mill-heads.kind", heads.kind)
    writer.add_string("mill-heads.base", config.name)
    writer.add_embedding_length(config.hidden_size)
    writer.add_vocab_size(config.vocab_size)
    writer.add_uint32("mill-heads.depth", heads.num_depths)
    half = lambda tensor: tensor.cpu().contiguous().numpy().astype(np.float16)
    full = lambda tensor: tensor.cpu().contiguous().numpy().astype(np.float32)
    if isinstance(heads, MedusaHeads):
        for index, block in enumerate(heads.blocks):
            writer.add_tensor(f"heads.{index}.weight", half(block.linear.weight))
    else:
        writer.add_uint32("mill-heads.layer_length", heads.width)
        writer.add_uint32("mill-heads.past_layer", heads.past_layer + 1)
        writer.add_feed_forward_length(heads.ffn_size)
        writer.add_layer_norm_rms_eps(heads.norm_eps)
        for name in ("embed_norm", "attn_norm", "ffn_norm", "norm"):
            writer.add_tensor(f"eagle.{name}.weight", full(getattr(heads, name)))
        for name, (parameter, rows) in heads.sections().items():
            matrix = parameter[rows]
            if name == "attn_q":
                matrix = interleave(matrix, heads.num_heads)
            writer.add_tensor(f"eagle.{name}.weight", half(matrix))
        if heads.is_narrow:
            writer.add_tensor("eagle.output.weight", half(heads.output.weight))
    write_file(writer, unfinished, path)
