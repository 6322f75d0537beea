"""Draws a run's log: answer loss of training steps and of held-out chats, by family, over tokens seen."""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--title", default="mill-base")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    entries = [json.loads(line) for line in args.log.read_text().splitlines()]
    figure, axes = plt.subplots(figsize=(8, 5), dpi=100)
    points = [(entry["tokens"] / 1e6, entry["loss"]) for entry in entries if "loss" in entry]
    axes.plot([x for x, _ in points], [y for _, y in points], label="training", linewidth=0.8, color="lightgrey")
    held = [(entry["tokens"] / 1e6, entry["held_out"]) for entry in entries if "held_out" in entry]
    for index, family in enumerate(sorted(held[-1][1]) if held else []):
        points = [(x, losses[family]) for x, losses in held if family in losses]
        is_all = family == "all"
        color = "black" if is_all else plt.get_cmap("tab20")(index)
        axes.plot([x for x, _ in points], [y for _, y in points], "o-", label=family, markersize=2, linewidth=2 if is_all else 1, color=color)
    axes.set(xlabel="million tokens", ylabel="nats per answer token, held out", yscale="log", title=args.title)
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(args.out)


if __name__ == "__main__":
    main()
