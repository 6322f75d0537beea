"""Trains mill-base on generated chats: tokenizer, network, resumable checkpoints, GGUF export. See README.md for the commands."""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from mill_data import PackedRows, encode_stream, loss_weights, train_tokenizer
from mill_export import export
from mill_model import Mill, MillConfig
from mill_optimizer import MillOptimizer

HERE = Path(__file__).parent
# (share of the steps done, row length, rows): short rows train fastest, long ones teach far positions.
STAGES = ((0.70, 256, 16), (0.88, 512, 8), (1.0, 1024, 4))
WARMUP_STEPS = 50
DECAY_SHARE = 0.5


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=HERE / "run/train.jsonl")
    parser.add_argument("--holdout", type=Path, default=HERE / "run/holdout.jsonl")
    parser.add_argument("--run", type=Path, default=HERE / "run", help="folder for checkpoints, token caches and logs")
    parser.add_argument("--out", type=Path, default=HERE / "mill-base.gguf")
    parser.add_argument("--steps", type=int, default=3000, help="may change on resume as long as the decay has not begun")
    parser.add_argument("--stop-after", type=int, help="end after this many steps of this process (to measure speed)")
    parser.add_argument("--checkpoint-minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def lr_factor(step: int, num_steps: int) -> float:
    """Warm up, stay, then fall linearly to zero over the last DECAY_SHARE of the steps."""
    remaining = (num_steps - step) / (DECAY_SHARE * num_steps)
    return min(1.0, (step + 1) / WARMUP_STEPS, remaining)


def weighted_loss(model: Mill, batch: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """(the training loss, the mean loss of answer tokens alone), in nats."""
    ids, targets, weights = (torch.from_numpy(part) for part in batch)
    logits = model(ids).flatten(0, 1)
    losses = F.cross_entropy(logits, targets.flatten(), reduction="none")
    weights = weights.flatten()
    answer_loss = losses.detach()[weights == 1.0].mean()
    return (losses * weights).sum() / weights.sum(), answer_loss


class Run:
    """Everything a checkpoint holds."""

    def __init__(self, args: argparse.Namespace) -> None:
        args.run.mkdir(parents=True, exist_ok=True)
        self.args = args
        self.tokenizer = self.load_tokenizer()
        stream = encode_stream(self.tokenizer, args.corpus, args.run / "train.npy")
        assistant_id = self.tokenizer.token_to_id("assistant")
        self.rows = PackedRows(stream, loss_weights(stream, assistant_id))
        held = encode_stream(self.tokenizer, args.holdout, args.run / "holdout.npy")
        self.held_rows = PackedRows(held, loss_weights(held, assistant_id))
        self.model = Mill(MillConfig())
        self.optimizer = MillOptimizer(self.model)
        self.step = 0
        self.num_tokens = 0
        self.checkpoint_path = args.run / "checkpoint.pt"
        if self.checkpoint_path.exists():
            self.load()
        print(f"{len(stream)} training tokens, {sum(p.numel() for p in self.model.parameters())} parameters, at step {self.step}", flush=True)

    def load_tokenizer(self) -> Tokenizer:
        path = self.args.run / "tokenizer.json"
        if not path.exists():
            train_tokenizer(self.args.corpus, MillConfig().vocab_size, num_chats=40000).save(str(path))
        return Tokenizer.from_file(str(path))

    def load(self) -> None:
        state = torch.load(self.checkpoint_path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.num_tokens, self.rows.cursor = state["step"], state["num_tokens"], state["cursor"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "num_tokens": self.num_tokens,
            "cursor": self.rows.cursor,
        }
        partial = self.checkpoint_path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint_path)
        export(self.model, self.tokenizer, self.args.out)

    @torch.no_grad()
    def held_out_loss(self, num_batches: int = 12) -> float:
        self.held_rows.cursor = 0
        losses = [weighted_loss(self.model, self.held_rows.batch(16, 256))[1].item() for _ in range(num_batches)]
        return float(np.mean(losses))

    def note(self, **entry: float) -> None:
        with (self.args.run / "log.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")


def train(run: Run) -> None:
    args = run.args
    forward = torch.compile(run.model, dynamic=False) if args.compile else run.model
    first_step, began = run.step, time.monotonic()
    last_save, last_print, tokens_at_print = began, began, run.num_tokens
    answer_losses: list[float] = []
    while run.step < args.steps:
        length, num_rows = next((length, rows) for share, length, rows in STAGES if run.step < share * args.steps)
        # Compiling again for the few long rows would take longer than it saves.
        model = forward if length == STAGES[0][1] else run.model
        loss, answer_loss = weighted_loss(model, run.rows.batch(num_rows, length))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
        factor = lr_factor(run.step, args.steps)
        run.optimizer.step(factor)
        run.model.zero_grad()
        run.step += 1
        run.num_tokens += length * num_rows
        answer_losses.append(answer_loss.item())
        now = time.monotonic()
        if run.step % 25 == 0:
            rate = (run.num_tokens - tokens_at_print) / (now - last_print)
            minutes_left = (args.steps - run.step) * (now - began) / (run.step - first_step) / 60
            mean_loss = float(np.mean(answer_losses))
            print(f"step {run.step}/{args.steps} loss {mean_loss:.4f} lr {factor:.3f} length {length} {rate:.0f} tokens/s eta {minutes_left:.1f} min", flush=True)
            run.note(step=run.step, tokens=run.num_tokens, loss=mean_loss, lr=factor)
            answer_losses.clear()
            last_print, tokens_at_print = now, run.num_tokens
        if now - last_save > args.checkpoint_minutes * 60 or run.step == args.steps:
            run.save()
            held = run.held_out_loss()
            print(f"saved at step {run.step}, held-out answer loss {held:.4f}", flush=True)
            run.note(step=run.step, tokens=run.num_tokens, held_out_loss=held)
            last_save = time.monotonic()
        if args.stop_after is not None and run.step - first_step >= args.stop_after:
            return


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    train(Run(args))


if __name__ == "__main__":
    main()
