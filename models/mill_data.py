"""Chats to token streams: the ChatML template, the byte-level BPE tokenizer, loss weights, packed rows."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIALS = [END_OF_TEXT, IM_START, IM_END]
END_OF_TEXT_ID, IM_START_ID, IM_END_ID = 0, 1, 2
CHAT_TEMPLATE = (
    "{%- for message in messages -%}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)
# The model is judged by its answers; a little weight elsewhere keeps it a language model of whole chats.
OTHER_WEIGHT = 0.1


def render(messages: list[dict], is_prompt: bool = False) -> str:
    text = "".join(f"{IM_START}{m['role']}\n{m['content']}{IM_END}\n" for m in messages)
    return text + f"{IM_START}assistant\n" if is_prompt else text


def read_chats(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def train_tokenizer(corpus: Path, vocab_size: int, num_chats: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    # GPT-2's pre-tokenizer: what GGUF calls tokenizer.ggml.pre = "gpt-2".
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (render(chat["messages"]) for _, chat in zip(range(num_chats), read_chats(corpus)))
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode_stream(tokenizer: Tokenizer, corpus: Path, cache: Path) -> np.ndarray:
    """All chats of a file as one uint16 stream, <|endoftext|> after each; kept in `cache`."""
    if cache.exists():
        return np.load(cache)
    parts: list[np.ndarray] = []
    batch: list[str] = []

    def flush() -> None:
        for encoding in tokenizer.encode_batch_fast(batch):
            parts.append(np.array(encoding.ids, dtype=np.uint16))
        batch.clear()

    for chat in read_chats(corpus):
        batch.append(render(chat["messages"]) + END_OF_TEXT)
        if len(batch) == 2000:
            flush()
    flush()
    stream = np.concatenate(parts)
    np.save(cache, stream)
    return stream


def loss_weights(stream: np.ndarray, assistant_id: int) -> np.ndarray:
    """Per token, how much predicting it counts: 1 for answers and their <|im_end|>, OTHER_WEIGHT for the rest."""
    positions = np.arange(len(stream))
    is_start = stream == IM_START_ID
    start = np.maximum.accumulate(np.where(is_start, positions, 0))
    is_end = stream == IM_END_ID
    # A token still belongs to its message when no <|im_end|> came between the message's start and it.
    end_before = np.concatenate(([0], np.maximum.accumulate(np.where(is_end, positions, 0))[:-1]))
    role = stream[np.minimum(start + 1, len(stream) - 1)]
    is_answer = (role == assistant_id) & (positions >= start + 3) & (end_before <= start)
    return np.where(is_answer, 1.0, OTHER_WEIGHT).astype(np.float32)


class PackedRows:
    """Rows of a fixed length that start at a chat and run on into the next ones. `cursor` is the whole state."""

    def __init__(self, stream: np.ndarray, weights: np.ndarray) -> None:
        self.stream, self.weights = stream, weights
        self.chat_starts = np.concatenate(([0], np.flatnonzero(stream[:-1] == END_OF_TEXT_ID) + 1))
        self.cursor = 0

    def batch(self, num_rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ids, targets (int64) and target weights, each [num_rows, length]."""
        starts = []
        for _ in range(num_rows):
            if self.cursor + length + 1 > len(self.stream):
                self.cursor = 0
            starts.append(self.cursor)
            # The next row begins with the chat this one cut off.
            index = np.searchsorted(self.chat_starts, self.cursor + length, side="right") - 1
            following = int(self.chat_starts[index])
            self.cursor = following if following > self.cursor else self.cursor + length
        window = np.add.outer(np.array(starts), np.arange(length + 1))
        tokens = self.stream[window].astype(np.int64)
        return tokens[:, :-1], tokens[:, 1:], self.weights[window[:, 1:]]
