"""Chats as text and as tokens: the ChatML template, the byte-level BPE tokenizer, and the mask of answer tokens."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
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
# Every digit is a separate piece; then GPT-2's expression applies. GGUF names this pre-tokenizer "starcoder".
PRE_TOKENIZER_NAME = "starcoder"


def render(messages: list[dict], is_prompt: bool = False) -> str:
    text = "".join(f"{IM_START}{m['role']}\n{m['content']}{IM_END}\n" for m in messages)
    return text + f"{IM_START}assistant\n" if is_prompt else text


def read_chats(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )


def train_tokenizer(chats: Iterable[dict], vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # The template's markers and roles are left out, so that they add no merges.
    tokenizer.train_from_iterator((m["content"] for chat in chats for m in chat["messages"]), trainer)
    return tokenizer


def assemble_tokenizer(pre: str, tokens: list[str], merges: list[str]) -> Tokenizer:
    """The tokenizer of a GGUF file's metadata."""
    if pre != PRE_TOKENIZER_NAME:
        raise ValueError(f"expected tokenizer.ggml.pre to be {PRE_TOKENIZER_NAME}, got {pre}: the file is of an earlier version of the family")
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def answer_mask(ids: np.ndarray, answer_header: list[int]) -> np.ndarray:
    """Mask of a chat's answer tokens, including their <|im_end|>: the tokens after `answer_header`, the ids of "<|im_start|>assistant\\n"."""
    is_answer = np.zeros(len(ids), dtype=bool)
    ends = np.flatnonzero(ids == IM_END_ID)
    for start in np.flatnonzero(ids == IM_START_ID):
        begin = start + len(answer_header)
        if ids[start:begin].tolist() == answer_header:
            # A truncated chat has no end marker.
            index = np.searchsorted(ends, begin)
            is_answer[begin : ends[index] + 1 if index < len(ends) else len(ids)] = True
    return is_answer


def last_answer(is_answer: np.ndarray) -> np.ndarray:
    """Keeps only the last of a chat's answers."""
    if not is_answer.any():
        return is_answer
    end = np.flatnonzero(is_answer)[-1] + 1
    others = np.flatnonzero(~is_answer[:end])
    kept = is_answer.copy()
    kept[: others[-1] + 1 if len(others) > 0 else 0] = False
    return kept


def departures(ids: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Mask of tokens that differ from the token after the previous occurrence of the same two tokens in the chat: copying would be wrong there."""
    pair = np.zeros(len(ids), dtype=np.int64)
    pair[2:] = ids[:-2].astype(np.int64) << 16 | ids[1:-1]
    lengths = np.diff(starts)
    places = np.arange(len(ids)) - np.repeat(starts[:-1], lengths)
    key = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths) << 32 | pair
    order = np.argsort(key, kind="stable")
    order = order[places[order] >= 2]
    before, after = order[:-1], order[1:]
    departs = np.zeros(len(ids), dtype=bool)
    departs[after] = (key[before] == key[after]) & (ids[before] != ids[after])
    return departs


@dataclass
class EncodedChats:
    """Chats of one JSONL file as token ids, in the file's order."""

    name: str
    ids: np.ndarray
    # [chats + 1]: chat i is ids[starts[i] : starts[i + 1]].
    starts: np.ndarray
    is_answer: np.ndarray
    # Mask of answer tokens at which copying would be wrong.
    departs: np.ndarray
    families: list[str]
    # [chats]: indices into `families`.
    family_of: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def first_answers(self) -> np.ndarray:
        """[chats]: number of tokens before the first answer; every chat has an answer."""
        answers = np.flatnonzero(self.is_answer)
        return answers[np.searchsorted(answers, self.starts[:-1])] - self.starts[:-1]


def answer_parts(messages: list[dict]) -> list[str]:
    """Encodes a rendered chat in parts that end where an answer begins, so that no token spans that place, as in serving."""
    begins = [len(render(messages[:index], is_prompt=True)) for index, message in enumerate(messages) if message["role"] == "assistant"]
    text = render(messages)
    return [text[begin:end] for begin, end in zip([0, *begins], [*begins, len(text)])]


# Version of the conversion from chats to cached arrays.
ENCODING_VERSION = 3


def encode_chats(tokenizer: Tokenizer, path: Path, max_chats: int | None = None) -> EncodedChats:
    """The result is cached next to the file as `.npz`, which is used if it is newer and was made by the same tokenizer and code."""
    digest = hashlib.sha256(f"{ENCODING_VERSION} {tokenizer.to_str()}".encode()).hexdigest()[:8]
    cache = path.with_suffix(f".{digest}.{max_chats or 'all'}.npz")
    if cache.exists() and cache.stat().st_mtime >= path.stat().st_mtime:
        with np.load(cache) as saved:
            arrays = {name: saved[name] for name in ("ids", "starts", "is_answer", "departs", "family_of")}
            return EncodedChats(name=path.name, families=saved["families"].tolist(), **arrays)
    header = tokenizer.encode(render([], is_prompt=True)).ids
    parts: list[np.ndarray] = []
    masks: list[np.ndarray] = []
    family_of: list[int] = []
    families: dict[str, int] = {}
    chats = islice(read_chats(path), max_chats)
    while batch := list(islice(chats, 2000)):
        texts = [answer_parts(chat["messages"]) for chat in batch]
        encodings = iter(tokenizer.encode_batch_fast([part for chat in texts for part in chat]))
        for chat, own in zip(batch, texts):
            ids = np.array([token for _ in own for token in next(encodings).ids], dtype=np.uint16)
            parts.append(ids)
            mask = answer_mask(ids, header)
            # If only the last message comes from the teacher, the others are part of the prompt.
            masks.append(last_answer(mask) if chat.get("answers") == "last" else mask)
            family_of.append(families.setdefault(chat["family"], len(families)))
    ids, is_answer = np.concatenate(parts), np.concatenate(masks)
    starts = np.concatenate(([0], np.cumsum([len(part) for part in parts])))
    arrays = {
        "ids": ids,
        "starts": starts,
        "is_answer": is_answer,
        "departs": is_answer & departures(ids, starts),
        "family_of": np.array(family_of, dtype=np.uint16),
    }
    partial = cache.with_suffix(".partial.npz")
    np.savez(partial, families=np.array(list(families)), **arrays)
    partial.replace(cache)
    return EncodedChats(name=path.name, families=list(families), **arrays)
