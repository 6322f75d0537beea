"""One training run: the loop, checkpoints from which a killed run resumes, the log, and held-out losses by family."""

import json
import math
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from batches import Pass, TrainingStream, held_out_passes
from chats import EncodedChats
from objectives import Losses, Objective
from optimizer import MillOptimizer, lr_factor


@dataclass
class RunOptions:
    folder: Path
    steps: int
    decay_steps: int
    # Ends after this many steps of this process; for measurements and for tests of resuming.
    stop_after: int | None = None
    # Minutes of processor time if the processor computes, so that a stalled process does not save repeatedly.
    checkpoint_minutes: float = 5.0
    # Steps between evaluations of the held-out losses.
    score_steps: int = 100
    device: str = "cpu"
    # The type of products in forward and backward passes; weights, sums and the optimizer's state stay float32.
    product_dtype: torch.dtype = torch.bfloat16


class Run:
    """A checkpoint contains `model`; `objective` computes its losses; `export` writes its file."""

    def __init__(
        self,
        options: RunOptions,
        model: nn.Module,
        optimizer: MillOptimizer,
        stream: TrainingStream,
        held_out: EncodedChats,
        objective: Objective,
        export: Callable[[], None],
    ) -> None:
        self.options, self.model, self.optimizer, self.stream = options, model, optimizer, stream
        self.held_out, self.objective, self.export = held_out, objective, export
        self.clock = time.process_time if options.device == "cpu" else time.monotonic
        self.step, self.num_tokens, self.seconds = 0, 0, 0.0
        self.is_stopping = False
        options.folder.mkdir(parents=True, exist_ok=True)
        self.checkpoint_path = options.folder / "checkpoint.pt"
        if self.checkpoint_path.exists():
            self.load()
        num_used, num_cut = int(stream.is_usable.sum()), stream.num_cut()
        left_out = f" ({len(stream.chats) - num_used} too long for the context, {num_cut} cut)" if num_cut or num_used < len(stream.chats) else ""
        print(f"{num_used} chats{left_out}, {sum(p.numel() for p in model.parameters())} parameters, at step {self.step}", flush=True)
        self.note(chats={"used": num_used, "cut": num_cut})

    def load(self) -> None:
        state = torch.load(self.checkpoint_path, map_location=self.options.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.num_tokens, self.seconds = state["step"], state["num_tokens"], state["seconds"]
        # A corpus other than the checkpoint's is read from its beginning.
        if state["corpus"] == self.stream.chats.name:
            self.stream.cursor = state["cursor"]

    def save(self, name: str = "checkpoint.pt") -> None:
        """Saves the complete state of a run. There is no random state, because passes depend only on the seed and the cursor."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "num_tokens": self.num_tokens,
            "seconds": self.seconds,
            "corpus": self.stream.chats.name,
            "cursor": self.stream.cursor,
        }
        partial = self.options.folder / "checkpoint.partial"
        torch.save(state, partial)
        partial.replace(self.options.folder / name)

    def autocast(self) -> torch.autocast:
        dtype = self.options.product_dtype
        return torch.autocast(self.options.device, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)

    def losses(self, one: Pass) -> Losses:
        with self.autocast():
            return self.objective(one.to(self.options.device))

    def lr_factor(self) -> float:
        options = self.options
        # A short run warms up for only a tenth of its steps.
        warmup_steps = min(self.optimizer.config.warmup_steps, options.steps // 10 + 1)
        return lr_factor(self.step, options.steps, options.decay_steps, warmup_steps)

    def train_step(self) -> float:
        """Mean loss of the step's answer tokens, in nats."""
        passes = self.stream.next_step()
        weight = sum(one.weights.sum().item() for one in passes)
        answer_loss, num_answers = 0.0, 0
        for one in passes:
            losses = self.losses(one)
            (losses.total / weight).backward()
            answer_loss += losses.nll[one.is_answer].sum().item()
            num_answers += int(one.is_answer.sum())
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        if not (math.isfinite(answer_loss) and math.isfinite(norm)):
            # The error comes before the update, so the weights and the checkpoint are still good.
            raise FloatingPointError(f"expected finite losses and gradients, got {answer_loss} and {norm} at step {self.step}: train at a lower rate")
        self.optimizer.step(self.lr_factor())
        self.model.zero_grad()
        self.step += 1
        self.num_tokens += sum(one.num_tokens for one in passes)
        return answer_loss / max(1, num_answers)

    @torch.no_grad()
    def held_out_losses(self) -> dict[str, float]:
        """Nats per answer token by family and over "all"."""
        sums: dict[str, float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        for one in held_out_passes(self.held_out, self.stream.config, self.stream.max_length):
            nll = self.losses(one).nll.cpu()
            for index, family in enumerate(self.held_out.families):
                chosen = nll[one.families == index]
                for key in (family, "all"):
                    sums[key] += chosen.sum().item()
                    counts[key] += len(chosen)
        return {key: round(sums[key] / counts[key], 4) for key in sorted(sums) if counts[key] > 0}

    def note(self, **entry: object) -> None:
        with (self.options.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps({"step": self.step, "tokens": self.num_tokens, "seconds": round(self.seconds), **entry}, allow_nan=False) + "\n")

    def checkpoint(self) -> None:
        self.save()
        self.export()

    def score(self) -> None:
        self.objective.take_report()
        held = self.held_out_losses()
        report = self.objective.take_report()
        print(f"step {self.step} held out {held} {report or ''}", flush=True)
        self.note(held_out=held, **report)

    def train(self) -> list[float]:
        """Runs the training and returns the answer loss of every step of this process."""
        options = self.options
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: setattr(self, "is_stopping", True))
        losses: list[float] = []
        seconds_saved = seconds_noted = self.seconds
        is_scored = False
        num_noted, tokens_noted = 0, self.num_tokens
        while self.step < options.steps and not self.is_stopping and len(losses) != options.stop_after:
            began = self.clock()
            losses.append(self.train_step())
            self.seconds += self.clock() - began
            is_scored = False
            if self.step % 20 == 0:
                recent = losses[num_noted:]
                loss, rate = sum(recent) / len(recent), (self.num_tokens - tokens_noted) / (self.seconds - seconds_noted)
                print(f"step {self.step}/{options.steps} loss {loss:.4f} {rate:.0f} tokens/s of {options.device} time", flush=True)
                self.note(loss=round(loss, 5))
                num_noted, tokens_noted, seconds_noted = len(losses), self.num_tokens, self.seconds
            if self.step == options.steps - options.decay_steps:
                self.save("before-decay.pt")
            if self.step % options.score_steps == 0:
                self.score()
                is_scored = True
            if self.seconds - seconds_saved > options.checkpoint_minutes * 60:
                self.checkpoint()
                seconds_saved = self.seconds
        self.checkpoint()
        if not is_scored and not self.is_stopping:
            self.score()
        return losses
