"""Shapes of the family's networks, and their training settings."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ModelConfig:
    """A llama-architecture network. The base's widths are multiples of 256, so that its rows can be stored in 256-wide quantisation blocks."""

    name: str
    description: str
    hidden_size: int = 256
    num_layers: int = 6
    num_heads: int = 4
    num_kv_heads: int = 4
    ffn_size: int = 768
    vocab_size: int = 4096
    context_length: int = 2048
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_size


@dataclass(frozen=True)
class TrainConfig:
    """Learning rates of Muon (matrices of the layers) and AdamW (embeddings, norms), and the grouping of tokens into steps."""

    matrix_lr: float = 0.02
    matrix_decay: float = 0.02
    other_lr: float = 3e-3
    warmup_steps: int = 60
    tokens_per_step: int = 6144
    # Tokens per forward pass; a step accumulates several passes.
    tokens_per_pass: int = 2048
    # The number of chats that are sorted by length together; passes are drawn from such a pool in random order.
    chats_per_pool: int = 512
    # The share of tokens outside answers that is predicted, and the weight of each (an answer's token has weight 1).
    prompt_share: float = 0.15
    prompt_weight: float = 0.3
    # The weight of answer tokens at which copying would be wrong: an edit is one such token among many copied ones.
    departure_weight: float = 4.0


PRESETS = {
    "base": ModelConfig("mill-base", "A small chat model trained from scratch on generated dialogues; bundled with millrace."),
    "draft": ModelConfig(
        "mill-draft",
        "Guesses ahead for a larger model, distilled from its distributions.",
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        num_kv_heads=4,
        ffn_size=256,
    ),
    "student": ModelConfig(
        "mill-student",
        "Extracts JSON from a text; distilled from mill-base's answers.",
        hidden_size=128,
        num_layers=3,
        num_heads=4,
        num_kv_heads=4,
        ffn_size=384,
    ),
    # For tests, because it trains in seconds.
    "toy": ModelConfig(
        "mill-toy", "A toy.", hidden_size=64, num_layers=2, num_heads=2, num_kv_heads=2, ffn_size=128, vocab_size=512, context_length=256
    ),
}
# Students for any teacher.
PRESETS["tiny"] = replace(PRESETS["draft"], name="student-tiny", description="Distilled from a teacher's answers.")
PRESETS["small"] = replace(PRESETS["student"], name="student-small", description="Distilled from a teacher's answers.")
