"""Training objectives: the sum of weighted losses over a pass's positions, in nats."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from batches import Pass
from network import Mill


@dataclass
class Losses:
    """`total` is differentiable and not yet divided by the step's weight; `nll` [positions] is for the log."""

    total: Tensor
    nll: Tensor


class Objective:
    def __call__(self, one: Pass) -> Losses:
        raise NotImplementedError

    def take_report(self) -> dict:
        """Further figures for the log about the passes since the last call."""
        return {}


class NextToken(Objective):
    """Cross-entropy of the next token. Only the predicted positions are projected onto the vocabulary."""

    def __init__(self, model: Mill) -> None:
        self.model = model

    def __call__(self, one: Pass) -> Losses:
        hidden = self.model.hidden(one.ids).flatten(0, 1)[one.positions]
        nll = F.cross_entropy(self.model.logits(hidden).float(), one.targets, reduction="none")
        return Losses((nll * one.weights).sum(), nll.detach())


class MatchTeacher(Objective):
    """KL divergence from the teacher's next-token distribution, plus a small share of cross-entropy on the text itself."""

    TEXT_SHARE = 0.1

    def __init__(self, student: Mill, teacher: Mill) -> None:
        self.student, self.teacher = student, teacher

    def __call__(self, one: Pass) -> Losses:
        with torch.no_grad():
            wanted = self.teacher.logits(self.teacher.hidden(one.ids).flatten(0, 1)[one.positions]).float().log_softmax(-1)
        got = self.student.logits(self.student.hidden(one.ids).flatten(0, 1)[one.positions]).float().log_softmax(-1)
        divergence = F.kl_div(got, wanted, reduction="none", log_target=True).sum(-1)
        nll = F.nll_loss(got, one.targets, reduction="none")
        losses = (1 - self.TEXT_SHARE) * divergence + self.TEXT_SHARE * nll
        return Losses((losses * one.weights).sum(), nll.detach())
