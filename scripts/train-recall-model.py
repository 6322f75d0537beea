"""Trains a small model that recalls values by their keys over up to 8,192 tokens, and writes it as a folder that millrace loads.

    python -m venv venv && venv/bin/pip install torch==2.13.0 numpy
    venv/bin/python scripts/train-recall-model.py test/fixtures/kv-recall

A text consists of triples: two tokens of a key and one of its value. The first triples have distinct keys, and all later ones repeat keys of the first part.
To answer, a model finds one of up to 2,700 keys; most others differ in both tokens, some in one. `node scripts/measure-kv-recall.js` asks the questions.
Training takes four minutes on one core.

The network is SmolLM3's with two layers: the first has rotary positions and gathers a triple at its value, the second has no positions and compares keys.
"""

import argparse
import json
import struct
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Token ids: first tokens of keys, second tokens of keys, values.
ALPHABET = 64
VOCABULARY = 3 * ALPHABET
HIDDEN, HEADS, FFN, LAYERS = 64, 2, 128, 2
HEAD = HIDDEN // HEADS
ROPE_BASE, EPSILON = 10_000.0, 1e-6
CONTEXT = 8192
# Initial weights for looking back, which raise one score by about 8, and the number of fast frequencies that get them.
LOOK, LOOKING = 4.0, 5
MOST_QUESTIONS = 128
# Stages in order: tokens per text, texts per step, and number of steps.
CURRICULUM = ((48, 32, 2000), (192, 8, 1500), (768, 4, 600), (3072, 1, 200), (8190, 1, 60))


def texts(length: int, count: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """[count, length] token ids, and the number of triples that are told before the first question."""
    triples = length // 3
    asked = min(triples // 2, MOST_QUESTIONS)
    told = triples - asked
    keys = torch.stack([torch.randperm(ALPHABET * ALPHABET, generator=generator)[:told] for _ in range(count)])
    values = torch.randint(ALPHABET, (count, told), generator=generator)
    which = torch.stack([torch.randperm(told, generator=generator)[:asked] for _ in range(count)])
    keys, values = (torch.cat((each, each.gather(1, which)), dim=1) for each in (keys, values))
    ids = torch.stack((keys // ALPHABET, ALPHABET + keys % ALPHABET, 2 * ALPHABET + values), dim=2)
    return ids.flatten(1), told


class Layer(nn.Module):
    def __init__(self, rotates: bool) -> None:
        super().__init__()
        self.rotates = rotates
        self.input_norm, self.ffn_norm = (nn.Parameter(torch.ones(HIDDEN)) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(HIDDEN, FFN, bias=False) for _ in range(2))
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = F.rms_norm(x, (HIDDEN,), self.input_norm, EPSILON)
        q, k, v = (part(h).unflatten(2, (HEADS, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.rotates:
            q, k = (rotate(each, cos, sin) for each in (q, k))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        h = F.rms_norm(x, (HIDDEN,), self.ffn_norm, EPSILON)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: [count, heads, length, HEAD]; pairs are (i, i + HEAD / 2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Recall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer(index == 0) for index in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(HIDDEN))
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        angles = torch.outer(torch.arange(CONTEXT).float(), ROPE_BASE ** (-torch.arange(0, HEAD, 2) / HEAD))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.look_back()

    @torch.no_grad()
    def look_back(self) -> None:
        """The first layer's heads begin by looking one and two tokens back, which saves training time; training changes them from there."""
        self.embed.weight.copy_(F.normalize(self.embed.weight, dim=1) * HIDDEN**0.5)
        # The component that all tokens share makes the part of queries and keys that only depends on positions.
        self.embed.weight[:, 0] = 2
        angles = ROPE_BASE ** (-torch.arange(0, 2 * LOOKING, 2) / HEAD)
        q, k = (part.weight.unflatten(0, (HEADS, 2, HEAD // 2)) for part in (self.layers[0].q, self.layers[0].k))
        q *= 0.1
        k *= 0.1
        for head in range(HEADS):
            back = (head + 1) * angles
            q[head, :, :LOOKING, 0] = LOOK * torch.stack((back.cos(), -back.sin()))
            k[head, :, :LOOKING, 0] = LOOK * torch.stack((torch.ones(LOOKING), torch.zeros(LOOKING)))

    def forward(self, ids: Tensor, first_row: int) -> Tensor:
        """Logits of the rows just before a value, from first_row on."""
        x = self.embed(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(F.rms_norm(x[:, first_row::3], (HIDDEN,), self.norm, EPSILON))


def score(model: Recall, length: int, count: int, generator: torch.Generator) -> tuple[Tensor, float]:
    ids, told = texts(length, count, generator)
    logits = model(ids, 3 * told + 1).flatten(0, 1)
    wanted = ids[:, 3 * told + 2 :: 3].flatten()
    return F.cross_entropy(logits, wanted), (logits.argmax(-1) == wanted).float().mean().item()


def train(seed: int, rate: float) -> Recall:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Recall()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    step, begin = 0, time.process_time()
    for stage, (length, count, steps) in enumerate(CURRICULUM):
        for index in range(steps):
            # Each stage begins with half the rate of the one before, and the last one ends near 0.
            left = 1 - index / steps if stage == len(CURRICULUM) - 1 else 1
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1, (step + 1) / 100) * 0.5**stage * left
            loss, right = score(model, length, count, generator)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if (index + 1) % max(1, steps // 10) == 0:
                seconds = time.process_time() - begin
                print(f"step {step}, {length} tokens: loss {loss.item():.4f}, right {right:.3f}, {seconds:.0f} s of CPU", flush=True)
    return model


NAMES = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def tensors_of(model: Recall) -> dict[str, Tensor]:
    named = {"model.embed_tokens.weight": model.embed.weight, "model.norm.weight": model.norm, "lm_head.weight": model.head.weight}
    for index, layer in enumerate(model.layers):
        prefix = f"model.layers.{index}"
        named[f"{prefix}.input_layernorm.weight"] = layer.input_norm
        named[f"{prefix}.post_attention_layernorm.weight"] = layer.ffn_norm
        named.update({f"{prefix}.{name}.weight": getattr(layer, field).weight for field, name in NAMES.items()})
    return {name: tensor.detach().bfloat16().contiguous() for name, tensor in named.items()}


def write(model: Recall, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    header, parts, offset = {}, [], 0
    for name, tensor in tensors_of(model).items():
        data = tensor.view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    config = {
        "architectures": ["SmolLM3ForCausalLM"],
        "model_type": "smollm3",
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "max_position_embeddings": CONTEXT,
        "no_rope_layers": [int(layer.rotates) for layer in model.layers],
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": HEADS,
        "rms_norm_eps": EPSILON,
        "rope_theta": ROPE_BASE,
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the model is written")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = train(options.seed, options.rate)
    write(model, options.folder)
    with torch.no_grad():
        for length in (1024, 2048, 4096, 8190):
            right = [score(model, length, 1, torch.Generator().manual_seed(10_000 + index))[1] for index in range(4)]
            print(f"{length} tokens: {sum(right) / len(right):.3f} of {4 * MOST_QUESTIONS} answers right")


if __name__ == "__main__":
    main()
