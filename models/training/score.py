"""Examines a GGUF of the family independently of the training code: whether it computes the same as the checkpoint, its answers, and its losses.

Writes the fixture for the engine's tests.
"""

import argparse
import json
from collections import defaultdict
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F

from chats import answer_mask, read_chats, render
from export import load_gguf
from network import Mill
from reference import Reference

SAMPLES = [
    "Hello!",
    "Who are you?",
    "What is the capital of Norway?",
    "What is 7 plus 5?",
    "348 + 275",
    "Count from 3 to 9.",
    "List five fruits.",
    "Sort these words: river, apple, lamp, garden",
    "Repeat after me: blue lantern Kotami 417",
    "Give me JSON for a person named Mara aged 31 living in Oslo.",
    "Read the text and give JSON with these fields: name (string), age (number), city (string).\n\nMara Olsen is 31 years old and lives in Oslo.",
    "Mara lives in Oslo. Otto works as a baker. The key is under the bed. Where is the key?",
    "Here is some JSON:\n{\"name\": \"lamp\", \"size\": 12}\nSet size to 30.",
    "Write a Python function add_all that returns the sum of a list.",
    "Tell me a short story about a fox and a river.",
]

FIXTURE_CHATS = [
    [{"role": "user", "content": "Tell me a short story about a fox and a river."}],
    [
        {"role": "system", "content": "Answer from this passage:\nMara lives in Oslo. Otto works as a baker. The key is under the bed."},
        {"role": "user", "content": "Where does Mara live?"},
    ],
    [
        {"role": "user", "content": "My name is Zoë, and I like crêpes."},
        {"role": "assistant", "content": "Nice to meet you, Zoë!"},
        {"role": "user", "content": "Give me JSON for a person named Mara aged 31 living in Oslo."},
    ],
]
# The tolerance for float32 sums in a different order.
LARGEST_DIFFERENCE = 1e-3
LEAST_LEAD = 0.01


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, help="the network's checkpoint: its logits must be the file's")
    parser.add_argument("--holdout", type=Path, help="chats whose answer loss is printed by family")
    parser.add_argument("--chats", type=int, default=300)
    parser.add_argument("--name", default="mill-base", help="the model's key in the fixture")
    parser.add_argument("--expected", type=Path, help="write the engine's fixture here")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


@torch.no_grad()
def largest_difference(model: Reference, network: Mill) -> float:
    """The largest difference between the logits of the file and of its source network, with matrices rounded as in the export."""
    for parameter in network.parameters():
        if parameter.dim() == 2:
            parameter.copy_(parameter.half().float())
    differences = []
    for messages in FIXTURE_CHATS:
        ids = model.tokenizer.encode(render(messages, is_prompt=True)).ids
        differences.append((model.forward(ids)[0] - network(torch.tensor([ids]))[0]).abs().max().item())
    return max(differences)


def check_export(model: Reference, path: Path, checkpoint: Path) -> None:
    network, _ = load_gguf(path)
    network.load_state_dict(torch.load(checkpoint, map_location="cpu")["model"])
    difference = largest_difference(model, network)
    print(f"largest difference between the file's logits and the network's: {difference:.1e}")
    if difference > LARGEST_DIFFERENCE:
        raise SystemExit(f"expected at most {LARGEST_DIFFERENCE}: the export is wrong, or the checkpoint is not the one it was made from")


def print_losses(model: Reference, chats: list[dict]) -> None:
    """Answer loss in nats per token, by family."""
    header = model.tokenizer.encode(render([], is_prompt=True)).ids
    loss_of: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for chat in chats:
        ids = model.tokenizer.encode(render(chat["messages"])).ids
        tokens = torch.tensor(ids)
        losses = F.cross_entropy(model.forward(ids)[0][:-1], tokens[1:], reduction="none")
        is_answer = torch.from_numpy(answer_mask(tokens.numpy(), header))[1:]
        for key in (chat["family"], "all"):
            loss_of[key][0] += losses[is_answer].sum().item()
            loss_of[key][1] += int(is_answer.sum())
    print("| family | answer loss (nats/token) |\n|---|---|")
    for family, (loss, count) in sorted(loss_of.items()):
        print(f"| {family} | {loss / count:.3f} |")


def expected_entry(model: Reference, messages: list[dict]) -> dict:
    """One entry of the fixture: `greedy` is the arg-max after each position, `top` the five likeliest tokens there."""
    text = render(messages, is_prompt=True)
    ids = model.tokenizer.encode(text).ids
    log_probs = model.forward(ids)[0].log_softmax(-1)
    top = log_probs.topk(5)
    following = torch.tensor(ids[1:])
    return {
        "messages": messages,
        "text": text,
        "tokens": ids,
        "greedy": log_probs.argmax(-1).tolist(),
        "meanNll": round(F.nll_loss(log_probs[:-1], following).item(), 6),
        "top": {
            str(position): [[int(i), round(float(p), 5)] for i, p in zip(top.indices[position], top.values[position])]
            for position in range(len(ids))
        },
        # The completion stops where two tokens are almost equally likely, because rounding would decide between them.
        "completion": model.generate(text, least_lead=LEAST_LEAD),
    }


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    model = Reference(args.model)
    if args.checkpoint is not None:
        check_export(model, args.model, args.checkpoint)
    for prompt in SAMPLES:
        messages = [{"role": "user", "content": prompt}]
        print(f"> {prompt}\n{model.tokenizer.decode(model.generate(render(messages, is_prompt=True)))}\n")
    if args.holdout is not None:
        print_losses(model, list(islice(read_chats(args.holdout), args.chats)))
    if args.expected is not None:
        entries = [expected_entry(model, messages) for messages in FIXTURE_CHATS]
        args.expected.write_text(json.dumps({args.name: entries}, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
