"""Writes the mean of files of one network, such as the final weights of a run and of its continuation.

Final weights lie on different sides of a loss valley, and their mean is closer to its bottom than either (Izmailov et al. 2018, arXiv 1803.05407).
"""

import argparse
from pathlib import Path

import torch

from export import export, load_gguf


@torch.no_grad()
def average(sources: list[Path], target: Path) -> None:
    (mean, tokenizer), *others = (load_gguf(source) for source in sources)
    for other, other_tokenizer in others:
        if other.config != mean.config or other_tokenizer.to_str() != tokenizer.to_str():
            raise ValueError(f"expected files of one network and tokenizer, got {mean.config} and {other.config}")
    for parameter, *same in zip(mean.parameters(), *(other.parameters() for other, _ in others), strict=True):
        parameter.copy_(torch.stack([parameter, *same]).mean(0))
    export(mean, tokenizer, target)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse_args()
    average(args.models, args.out)
