"""Batches of chats of similar length: each row is a chat from its first token on, as when served, and there is almost no padding."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from chats import END_OF_TEXT_ID, EncodedChats
from config import TrainConfig

# Rows are padded to a multiple of this length.
LENGTH_STEP = 16


@dataclass
class Pass:
    """One forward pass: `ids` [rows, time]; the flat positions [count] that predict a next token, these tokens and their weights."""

    ids: Tensor
    positions: Tensor
    targets: Tensor
    weights: Tensor
    # Whether each position predicts an answer's token, and its family.
    is_answer: Tensor
    families: Tensor
    num_tokens: int
    # [rows]: index of each row's first token among all tokens of the chats.
    first_tokens: np.ndarray

    def to(self, device: str) -> "Pass":
        """Moves the network's inputs to `device`; fields that are only counted stay."""
        moved = {name: getattr(self, name).to(device) for name in ("ids", "positions", "targets", "weights")}
        return replace(self, **moved)


def make_pass(chats: EncodedChats, indices: np.ndarray, max_length: int, config: TrainConfig, random: np.random.Generator) -> Pass:
    """The chats at `indices` as rows, truncated to `max_length` + 1 tokens."""
    lengths = np.minimum(chats.lengths()[indices], max_length + 1)
    width = min(int(-(-(lengths.max() - 1) // LENGTH_STEP) * LENGTH_STEP), max_length) + 1
    ids = np.full((len(indices), width), END_OF_TEXT_ID, dtype=np.int64)
    is_answer = np.zeros((len(indices), width), dtype=bool)
    departs = np.zeros((len(indices), width), dtype=bool)
    is_token = np.zeros((len(indices), width), dtype=bool)
    for row, (index, length) in enumerate(zip(indices, lengths)):
        start = chats.starts[index]
        ids[row, :length] = chats.ids[start : start + length]
        is_answer[row, :length] = chats.is_answer[start : start + length]
        departs[row, :length] = chats.departs[start : start + length]
        is_token[row, :length] = True
    is_answer, departs, is_token = (mask[:, 1:].ravel() for mask in (is_answer, departs, is_token))
    positions = np.flatnonzero(is_answer | (is_token & (random.random(is_token.shape) < config.prompt_share)))
    weights = np.where(is_answer, np.where(departs, config.departure_weight, 1.0), config.prompt_weight)
    families = np.repeat(chats.family_of[indices].astype(np.int64), width - 1)
    return Pass(
        ids=torch.from_numpy(np.ascontiguousarray(ids[:, :-1])),
        positions=torch.from_numpy(positions),
        targets=torch.from_numpy(ids[:, 1:].ravel()[positions]),
        weights=torch.from_numpy(weights[positions].astype(np.float32)),
        is_answer=torch.from_numpy(is_answer[positions]),
        families=torch.from_numpy(families[positions]),
        num_tokens=int(lengths.sum()) - len(indices),
        first_tokens=chats.starts[indices],
    )


def split_by_length(lengths: np.ndarray, tokens_per_pass: int) -> list[np.ndarray]:
    """Indices of chats, shortest first, in groups of about `tokens_per_pass` tokens including padding."""
    order = np.argsort(lengths, kind="stable")
    groups: list[np.ndarray] = []
    begin = 0
    for end in range(1, len(order) + 1):
        is_last = end == len(order)
        if is_last or (end + 1 - begin) * lengths[order[end]] > tokens_per_pass:
            groups.append(order[begin:end])
            begin = end
    return groups


class TrainingStream:
    """Endless steps over the chats, in pools of consecutive chats of the file; the next step depends only on (seed, cursor)."""

    def __init__(self, chats: EncodedChats, config: TrainConfig, max_length: int, seed: int) -> None:
        self.chats, self.config, self.max_length, self.seed = chats, config, max_length, seed
        # A chat that would be truncated before its first answer is left out.
        self.is_usable = chats.first_answers() <= max_length
        # The current pool, and the number of passes already taken from it.
        self.pool, self.taken = 0, 0
        self.num_pools = -(-len(chats) // config.chats_per_pool)
        if not self.is_usable.any():
            raise ValueError(f"expected chats whose first answer comes within {max_length} tokens, got none in {chats.name}")
        self.order: list[np.ndarray] | None = None

    def num_cut(self) -> int:
        """The number of usable chats that are truncated."""
        return int((self.is_usable & (self.chats.lengths() > self.max_length + 1)).sum())

    @property
    def cursor(self) -> tuple[int, int]:
        return self.pool, self.taken

    @cursor.setter
    def cursor(self, value: tuple[int, int]) -> None:
        (self.pool, self.taken), self.order = value, None

    def next_pass(self) -> Pass:
        config = self.config
        while not self.order:
            # A pool may contain no usable chat.
            self.pool += self.order is not None
            first = (self.pool % self.num_pools) * config.chats_per_pool
            chosen = first + np.flatnonzero(self.is_usable[first : first + config.chats_per_pool])
            lengths = np.minimum(self.chats.lengths()[chosen], self.max_length + 1)
            groups = split_by_length(lengths, config.tokens_per_pass)
            shuffled = np.random.default_rng((self.seed, self.pool)).permutation(len(groups))
            self.order = [chosen[groups[index]] for index in shuffled]
            if self.taken >= len(groups):
                # A checkpoint with longer steps or other chats may have taken more passes than this pool has.
                self.taken, self.order = 0, []
        random = np.random.default_rng((self.seed, self.pool, self.taken))
        made = make_pass(self.chats, self.order[self.taken], self.max_length, config, random)
        self.taken += 1
        if self.taken == len(self.order):
            self.cursor = (self.pool + 1, 0)
        return made

    def next_step(self) -> list[Pass]:
        passes = [self.next_pass()]
        while sum(one.num_tokens for one in passes) < self.config.tokens_per_step - self.config.tokens_per_pass / 2:
            passes.append(self.next_pass())
        return passes


def held_out_passes(chats: EncodedChats, config: TrainConfig, max_length: int) -> Iterator[Pass]:
    """All chats once; only answers are predicted."""
    config = replace(config, prompt_share=0.0)
    lengths = np.minimum(chats.lengths(), max_length + 1)
    random = np.random.default_rng(0)
    for group in split_by_length(lengths, config.tokens_per_pass):
        yield make_pass(chats, group, max_length, config, random)
