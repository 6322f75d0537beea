"""EAGLE-3 heads (arXiv 2503.01840) for any model, from its hidden states on its own answers, as `millrace train-drafter` writes them.

The head is one llama layer. At position i it reads the fused states of three of the model's layers and the embedding of token i + 1, and predicts the
distribution after token i + 1. Training unrolls it as drafting does ("training-time test"): at depth d its row i stands for position i + d, reads its
own state of depth d - 1, and attends to the keys of the model's states up to i and to its own keys of the depths after that.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from batches import Pass
from chats import EncodedChats
from heads import MatchBase
from network import rotate


@dataclass
class States:
    """The folder of states; `facts` are those of the model, under src/engine/model-states.ts' names."""

    facts: dict
    # [positions, fused layers + 1, width]
    values: np.ndarray
    embedding: Tensor
    output: Tensor
    training: EncodedChats
    held_out: EncodedChats


def load_states(folder: Path) -> States:
    facts = json.loads((folder / "states.json").read_text())
    chats, width, vocab = facts.pop("chats"), facts["width"], facts["vocabSize"]
    tables = torch.from_numpy(np.fromfile(folder / "tables.f32", dtype=np.float32)).view(2, vocab, width)
    ids = np.fromfile(folder / "ids.i32", dtype=np.int32)
    starts = np.cumsum([0, *(chat["numTokens"] for chat in chats)])
    is_answer = np.zeros(len(ids), dtype=bool)
    for start, end, chat in zip(starts, starts[1:], chats):
        is_answer[start + chat["numPrompt"] : end] = True
    families = sorted({chat["family"] for chat in chats})
    family_of = np.array([families.index(chat["family"]) for chat in chats])
    num_held_out = sum(chat["isHeldOut"] for chat in chats)

    def part(name: str, first: int, last: int) -> EncodedChats:
        arrays = dict(ids=ids, is_answer=is_answer, departs=np.zeros(len(ids), dtype=bool))
        return EncodedChats(name=name, starts=starts[first : last + 1], families=families, family_of=family_of[first:last], **arrays)

    values = np.memmap(folder / "states.f32", dtype=np.float32, mode="r").reshape(len(ids), -1, width)
    return States(facts, values, tables[0].clone(), tables[1].clone(), part("training", num_held_out, len(chats)), part("held out", 0, num_held_out))


def draft_tokens(states: States) -> Tensor:
    """Tokens of the training answers, ascending: those the head can draft."""
    chats = states.training
    span = slice(chats.starts[0], chats.starts[-1])
    return torch.from_numpy(np.unique(chats.ids[span][chats.is_answer[span]]).astype(np.int64))


class Eagle3(nn.Module):
    kind = "eagle3"

    def __init__(self, states: States, num_depths: int) -> None:
        super().__init__()
        facts = states.facts
        self.num_depths, self.facts, self.eps = num_depths, facts, facts["rmsEps"]
        width, ff, num_fused = facts["width"], facts["ffWidth"], len(facts["inputLayers"])
        self.head_size, self.num_heads, self.num_kv_heads = facts["headDim"], facts["numHeads"], facts["numKvHeads"]
        self.tokens = draft_tokens(states)
        linear = partial(nn.Linear, bias=False)
        self.fc = linear(num_fused * width, width)
        self.q_proj = linear(2 * width, self.num_heads * self.head_size)
        self.k_proj = linear(2 * width, self.num_kv_heads * self.head_size)
        self.v_proj = linear(2 * width, self.num_kv_heads * self.head_size)
        self.o_proj = linear(self.num_heads * self.head_size, width)
        self.gate_proj, self.up_proj, self.down_proj = linear(width, ff), linear(width, ff), linear(ff, width)
        self.lm_head = linear(width, len(self.tokens))
        for matrix in (self.q_proj, self.k_proj, self.v_proj, self.gate_proj, self.up_proj):
            nn.init.normal_(matrix.weight, std=0.03)
        for matrix in (self.o_proj, self.down_proj):
            nn.init.normal_(matrix.weight, std=0.005)
        # The head begins with the highest of the fused states, and the model's output matrix.
        nn.init.normal_(self.fc.weight, std=0.005)
        with torch.no_grad():
            self.fc.weight[:, -width:] += torch.eye(width)
            self.lm_head.weight.copy_(states.output[self.tokens])
        for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm", "norm"):
            setattr(self, name, nn.Parameter(torch.ones(width)))
        frequencies = ROPE_BASE ** (-torch.arange(0, self.head_size, 2, dtype=torch.float32) / self.head_size)
        angles = torch.outer(torch.arange(facts["contextLength"] + num_depths, dtype=torch.float32), frequencies)
        self.register_buffer("cos", angles.cos()[:, None], persistent=False)
        self.register_buffer("sin", angles.sin()[:, None], persistent=False)

    @property
    def layers(self) -> list[nn.Module]:
        return [self]

    def sections(self) -> dict[str, tuple[nn.Parameter, slice]]:
        """The matrices for Muon; the output matrix is not one of them."""
        names = ("fc", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        return {name: (getattr(self, name).weight, slice(None)) for name in names}

    def normed(self, x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], getattr(self, name), self.eps)

    def forward(self, fused: Tensor, ids: Tensor, embedding: Tensor) -> list[Tensor]:
        """fused [rows, time, layers * width], ids [rows, time] -> by depth the states [rows, time, width], for `logits`."""
        rows, time = ids.shape
        keys: list[Tensor] = []
        values: list[Tensor] = []
        out: list[Tensor] = []
        state = self.fc(fused)
        future = torch.full((time, time), float("-inf"), device=ids.device).triu(1)
        for depth in range(self.num_depths):
            # Beyond the row's end any token is fine, because no loss is computed there.
            following = embedding[F.pad(ids[:, depth + 1 :], (0, min(depth + 1, time)))]
            x = torch.cat((self.normed(following, "input_layernorm"), self.normed(state, "hidden_norm")), dim=-1)
            places = slice(depth, depth + time)
            split = lambda y: y.unflatten(-1, (-1, self.head_size))
            turned = lambda y: rotate(split(y), self.cos[places], self.sin[places])
            repeat = lambda y: y.repeat_interleave(self.num_heads // self.num_kv_heads, dim=2)
            q = turned(self.q_proj(x)) * self.head_size**-0.5
            keys.append(repeat(turned(self.k_proj(x))))
            values.append(repeat(split(self.v_proj(x))))
            # [rows, heads, time, time], and [rows, heads, time, 1] for each later depth.
            scores = [torch.einsum("bqhd,bkhd->bhqk", q, keys[0]) + future]
            scores += [torch.einsum("bqhd,bqhd->bhq", q, key)[..., None] for key in keys[1:]]
            shares = torch.cat(scores, dim=-1).float().softmax(-1).to(x.dtype)
            attended = torch.einsum("bhqk,bkhd->bqhd", shares[..., :time], values[0])
            for later, value in enumerate(values[1:]):
                attended = attended + shares[..., time + later].transpose(1, 2)[..., None] * value
            x = state + self.o_proj(attended.flatten(2))
            y = self.normed(x, "post_attention_layernorm")
            state = x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))
            out.append(state)
        return out

    def logits(self, state: Tensor) -> Tensor:
        return self.lm_head(self.normed(state, "norm"))


class MatchStates(MatchBase):
    """MatchBase over the tokens that the head knows, with the model's distributions from its stored states."""

    def __init__(self, head: Eagle3, states: States, device: str) -> None:
        super().__init__(head, states)
        self.embedding, self.output = states.embedding.to(device), states.output[head.tokens].to(device)

    def guesses(self, one: Pass) -> tuple[Tensor, list[Tensor]]:
        rows, time = one.ids.shape
        last = len(self.base.values) - 1
        places = np.minimum(one.first_tokens[:, None] + np.arange(time), last)
        values = torch.from_numpy(self.base.values[places]).to(one.ids.device)
        facts = self.base.facts
        logits = values[:, :, -1].flatten(0, 1)[one.positions] @ self.output.T * facts["logitScale"]
        if facts["logitCap"] > 0:
            logits = facts["logitCap"] * torch.tanh(logits / facts["logitCap"])
        return logits.float().log_softmax(-1), self.heads(values[:, :, :-1].flatten(2), one.ids, self.embedding)

    def logits(self, state: Tensor) -> Tensor:
        return self.heads.logits(state)


ROPE_BASE = 10000.0


@torch.no_grad()
def export_eagle3(head: Eagle3, folder: Path) -> None:
    """A folder as the hub has them: config.json beside model.safetensors (F16)."""
    facts = head.facts
    half = lambda parameter: parameter.detach().cpu().contiguous().numpy().astype(np.float16)
    layer = {"self_attn.": ("q_proj", "k_proj", "v_proj", "o_proj"), "mlp.": ("gate_proj", "up_proj", "down_proj")}
    tensors = {f"midlayer.{part}{name}.weight": half(getattr(head, name).weight) for part, names in layer.items() for name in names}
    tensors |= {f"midlayer.{name}.weight": half(getattr(head, name)) for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")}
    tensors |= {"fc.weight": half(head.fc.weight), "norm.weight": half(head.norm), "lm_head.weight": half(head.lm_head.weight)}
    tokens = head.tokens.numpy()
    tensors["d2t"] = tokens - np.arange(len(tokens))
    tensors["t2d"] = np.isin(np.arange(facts["vocabSize"]), tokens)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": facts["width"],
        "target_hidden_size": facts["width"],
        "intermediate_size": facts["ffWidth"],
        "max_position_embeddings": facts["contextLength"],
        "num_attention_heads": facts["numHeads"],
        "num_key_value_heads": facts["numKvHeads"],
        "head_dim": facts["headDim"],
        "num_hidden_layers": 1,
        "rms_norm_eps": facts["rmsEps"],
        "rope_theta": ROPE_BASE,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "vocab_size": facts["vocabSize"],
        "draft_vocab_size": len(tokens),
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": facts["inputLayers"], "use_aux_hidden_state": True},
    }
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "model.partial"
    with unfinished.open("wb") as file:
        write_safetensors(file, tensors)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    unfinished.replace(folder / "model.safetensors")


DTYPES = {"float16": "F16", "int64": "I64", "bool": "BOOL"}


def write_safetensors(file, tensors: dict[str, np.ndarray]) -> None:
    """https://github.com/huggingface/safetensors#format"""
    table, end = {}, 0
    for name, values in tensors.items():
        table[name] = {"dtype": DTYPES[str(values.dtype)], "shape": list(values.shape), "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(8, "little") + header)
    for values in tensors.values():
        file.write(values.tobytes())
