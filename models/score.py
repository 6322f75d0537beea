"""Scores a mill-base GGUF: held-out loss, greedy answers per family, samples; writes the fixture the engine is tested against."""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F

from mill_data import OTHER_WEIGHT, loss_weights, read_chats, render
from mill_reference import Reference

HERE = Path(__file__).parent

SAMPLES = [
    "Hello!",
    "Who are you?",
    "What can you do?",
    "I feel sad today.",
    "Thank you very much!",
    "What colour is a lemon?",
    "What sound does a cow make?",
    "What is the opposite of cold?",
    "Which day comes after Friday?",
    "What is the capital of Norway?",
    "What does a miller do?",
    "What is 7 plus 5?",
    "Count from 3 to 9.",
    "List five fruits.",
    "Name three animals as a numbered list.",
    "Give me JSON for a person named Mara aged 31 living in Oslo.",
    "Repeat after me: blue lantern Kotami 417",
    "Mara lives in Oslo. Otto works as a baker. The key is under the bed. Where is the key?",
    "Tell me a short story about a fox and a river.",
    "Tell me a story about an owl named Iris and a lantern.",
]

FIXTURE_CHATS = [
    [{"role": "user", "content": "Tell me a short story about a fox and a river."}],
    [
        {"role": "system", "content": "Answer from this passage:\nMara lives in Oslo. Otto works as a baker. The key is under the bed."},
        {"role": "user", "content": "Where is the key?"},
    ],
    [
        {"role": "user", "content": "My name is Zoë, and I like crêpes."},
        {"role": "assistant", "content": "Nice to meet you, Zoë!"},
        {"role": "user", "content": "Give me JSON for a person named Mara aged 31 living in Oslo."},
    ],
]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=HERE / "mill-base.gguf")
    parser.add_argument("--holdout", type=Path, default=HERE / "run/holdout.jsonl")
    parser.add_argument("--chats", type=int, default=600, help="held-out chats to score")
    parser.add_argument("--expected", type=Path, help="write the engine's fixture here")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def is_right(family: str, question: str, answer: str, expected: str) -> bool:
    """Families with one right answer compare; the free ones check what the request demands."""
    if family == "json":
        try:
            return json.loads(answer) == json.loads(expected)
        except ValueError:
            return False
    if family == "story":
        things = question.lower().rstrip(".").split(" about ")[-1].replace(",", "").split()
        names = [word for word in things if word not in ("a", "an", "and", "the", "named", "called")]
        return answer.endswith((".", "\"")) and all(name in answer.lower() for name in names)
    if family == "list":
        split = lambda text: [item.strip(" .-0123456789").lower() for item in text.replace(" and ", ", ").replace("\n", ", ").split(", ")]
        items = split(answer)
        return len(items) == len(split(expected)) == len(set(items))
    return answer.lower().strip(".!") == expected.lower().strip(".!")


def score_chat(model: Reference, chat: dict) -> tuple[float, int, bool | None]:
    """(summed answer loss in nats, answer tokens, whether the last answer is right)."""
    assistant_id = model.tokenizer.token_to_id("assistant")
    ids = model.tokenizer.encode(render(chat["messages"])).ids
    tokens = torch.tensor(ids)
    logits, _ = model.forward(ids)
    losses = F.cross_entropy(logits[:-1], tokens[1:], reduction="none")
    is_answer = torch.from_numpy(loss_weights(tokens.numpy(), assistant_id))[1:] > OTHER_WEIGHT
    loss, count = losses[is_answer].sum().item(), int(is_answer.sum())
    if chat["family"] in ("greeting", "identity", "feeling", "unknown", "conversation"):
        return loss, count, None
    *before, last = chat["messages"]
    answer = model.tokenizer.decode(model.generate(render(before, is_prompt=True)))
    return loss, count, is_right(chat["family"], before[-1]["content"], answer, last["content"])


def score(model: Reference, chats: list[dict]) -> None:
    loss_of: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    right_of: dict[str, list[bool]] = defaultdict(list)
    for chat in chats:
        loss, count, right = score_chat(model, chat)
        for key in (chat["family"], "all"):
            loss_of[key][0] += loss
            loss_of[key][1] += count
        if right is not None:
            right_of[chat["family"]].append(right)
    print("| family | answer loss (nats/token) | right |\n|---|---|---|")
    for family, (loss, count) in sorted(loss_of.items()):
        marks = right_of.get(family)
        shown = f"{100 * sum(marks) / len(marks):.0f} % of {len(marks)}" if marks else ""
        print(f"| {family} | {loss / count:.3f} | {shown} |")


def expected_entry(model: Reference, messages: list[dict]) -> dict:
    """The shape of one entry: `greedy` is the arg-max after each position, `top` the five likeliest tokens there."""
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
        "completion": model.generate(text),
    }


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    model = Reference(args.model)
    for prompt in SAMPLES:
        messages = [{"role": "user", "content": prompt}]
        print(f"> {prompt}\n{model.tokenizer.decode(model.generate(render(messages, is_prompt=True)))}\n")
    if args.holdout.exists():
        score(model, [chat for _, chat in zip(range(args.chats), read_chats(args.holdout))])
    if args.expected is not None:
        entries = [expected_entry(model, messages) for messages in FIXTURE_CHATS]
        args.expected.write_text(json.dumps({"mill-base": entries}, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
