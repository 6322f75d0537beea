"""Muon for the matrices of the layers, AdamW for embeddings and norms.

Muon (Jordan 2024): momentum, orthogonalised by five Newton-Schulz steps, for all matrices of a shape at once; on small models it
needs about half the tokens of AdamW.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from config import TrainConfig

MOMENTUM = 0.95


def orthogonalise(matrices: Tensor) -> Tensor:
    """Approximates the nearest semi-orthogonal matrices of [count, rows, columns], rows <= columns, by Jordan's quintic iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def lr_factor(step: int, num_steps: int, decay_steps: int, warmup_steps: int) -> float:
    """Warm-up, constant rate, then linear decay to zero over the last `decay_steps`; a run can be extended until the decay begins."""
    falling = (num_steps - step) / decay_steps if decay_steps > 0 else 1.0
    return min(1.0, (step + 1) / warmup_steps, falling)


class MillOptimizer:
    def __init__(self, model: nn.Module, layers: Iterable[nn.Module], config: TrainConfig, product_dtype: torch.dtype = torch.bfloat16) -> None:
        """`layers` have `sections()`, the matrices that Muon updates; AdamW updates all other trained parameters of `model`."""
        self.config, self.product_dtype = config, product_dtype
        sections = [section for layer in layers for section in layer.sections().values()]
        self.groups: dict[tuple[int, int], list[tuple[nn.Parameter, slice]]] = {}
        for parameter, rows in sections:
            self.groups.setdefault(tuple(parameter[rows].shape), []).append((parameter, rows))
        device = sections[0][0].device
        self.momenta = {shape: torch.zeros(len(group), *shape, device=device) for shape, group in self.groups.items()}
        matrices = {id(parameter) for parameter, _ in sections}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in matrices]
        # Medusa's blocks have only matrices, so AdamW may have no parameters.
        self.adam = torch.optim.AdamW(others, lr=config.other_lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True) if others else None

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Applies the gradients at `factor` times the configured rates."""
        if self.adam is not None:
            for group in self.adam.param_groups:
                group["lr"] = self.config.other_lr * factor
            self.adam.step()
        lr = self.config.matrix_lr * factor
        for shape, group in self.groups.items():
            gradient = torch.stack([parameter.grad[rows] for parameter, rows in group])
            momentum = self.momenta[shape].lerp_(gradient, 1 - MOMENTUM)
            update = gradient.lerp(momentum, MOMENTUM).to(self.product_dtype)
            is_tall = shape[0] > shape[1]
            update = (orthogonalise(update.mT).mT if is_tall else orthogonalise(update)).float()
            scale = max(1.0, shape[0] / shape[1]) ** 0.5
            for (parameter, rows), part in zip(group, update):
                parameter[rows].mul_(1 - lr * self.config.matrix_decay).add_(part, alpha=-lr * scale)

    def state_dict(self) -> dict:
        return {"momenta": self.momenta, "adam": self.adam and self.adam.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        for shape, saved in state["momenta"].items():
            self.momenta[shape].copy_(saved)
        if self.adam is not None:
            self.adam.load_state_dict(state["adam"])
