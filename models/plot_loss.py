"""Draws loss.png from the run's log: answer loss of training batches and of held-out chats over tokens seen."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def main() -> None:
    entries = [json.loads(line) for line in (HERE / "run/log.jsonl").read_text().splitlines()]
    figure, axes = plt.subplots(figsize=(7, 4), dpi=100)
    for key, label, style in (("loss", "training", "-"), ("held_out_loss", "held out", "o")):
        points = [(entry["tokens"] / 1e6, entry[key]) for entry in entries if key in entry]
        axes.plot([x for x, _ in points], [y for _, y in points], style, label=label, markersize=4, linewidth=1)
    axes.set(xlabel="million tokens", ylabel="nats per answer token", yscale="log", title="mill-base")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(HERE / "loss.png")


if __name__ == "__main__":
    main()
