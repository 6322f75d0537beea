"""Muon for the matrices of the layers, AdamW for embeddings and norms.

Muon (Jordan 2024): momentum, made orthogonal by five Newton-Schulz steps; on small models it needs about half the tokens of AdamW.
Here the steps run in float32 on all matrices of a shape at once, which suits a CPU.
"""

import torch
from torch import Tensor

from mill_model import Mill

MATRIX_LR, MATRIX_DECAY, MOMENTUM = 0.02, 0.02, 0.95
OTHER_LR = 3e-3


def orthogonalise(matrices: Tensor) -> Tensor:
    """Nearest semi-orthogonal matrices of [count, rows, columns], rows <= columns; coefficients from Jordan's quintic iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class MillOptimizer:
    def __init__(self, model: Mill) -> None:
        matrices = [p for p in model.layers.parameters() if p.dim() == 2]
        others = [p for p in model.parameters() if p.dim() != 2 or p is model.embed.weight]
        shapes = sorted({tuple(p.shape) for p in matrices})
        self.groups = [[p for p in matrices if tuple(p.shape) == shape] for shape in shapes]
        self.momenta = [torch.zeros(len(group), *group[0].shape) for group in self.groups]
        self.adam = torch.optim.AdamW(others, lr=OTHER_LR, betas=(0.9, 0.98), weight_decay=0.0)

    @torch.no_grad()
    def step(self, lr_factor: float) -> None:
        for group in self.adam.param_groups:
            group["lr"] = OTHER_LR * lr_factor
        self.adam.step()
        for params, momentum in zip(self.groups, self.momenta):
            gradient = torch.stack([p.grad for p in params])
            momentum.lerp_(gradient, 1 - MOMENTUM)
            update = gradient.lerp(momentum, MOMENTUM)
            is_tall = update.shape[-2] > update.shape[-1]
            update = orthogonalise(update.mT).mT if is_tall else orthogonalise(update)
            scale = max(1.0, update.shape[-2] / update.shape[-1]) ** 0.5
            for p, u in zip(params, update):
                p.mul_(1 - MATRIX_LR * lr_factor * MATRIX_DECAY).add_(u, alpha=-MATRIX_LR * lr_factor * scale)

    def state_dict(self) -> dict:
        return {"momenta": self.momenta, "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        for mine, saved in zip(self.momenta, state["momenta"]):
            mine.copy_(saved)
        self.adam.load_state_dict(state["adam"])
