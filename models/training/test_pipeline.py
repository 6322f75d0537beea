"""Tests the whole pipeline at toy size: `python3 models/training/test_pipeline.py` after `npm run build`; about a minute on a CPU.

MILL_TEST_FOLDER keeps the files, to compare them with the engine: tokens.jsonl has held-out texts with ids, guesses.jsonl the guesses that
random heads of random.gguf make after such texts.
"""

import json
import math
import os
import subprocess
import tempfile
import unittest
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import torch

from average import average
from batches import TrainingStream
from chats import EncodedChats, departures, encode_chats, read_chats, render
from config import PRESETS, TrainConfig
from eagle3 import Eagle3, States, export_eagle3
from export import add_tokenizer, export, load_gguf, write_file
from heads import create_heads, export_heads
from network import Mill
from quantize import quantize
from reference import Reference
from score import largest_difference
from train import MODELS, create_run, parse_args

STEPS = 8


class Pipeline(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(os.environ.get("MILL_TEST_FOLDER", cls.temporary.name))
        for name, seed, count in (("train", 1, 1500), ("holdout", 1000001, 20)):
            cls.generate(cls.folder / f"{name}.jsonl", seed, count)
        cls.base_losses = cls.train("pretrain", "base", "--preset", "toy")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.temporary.cleanup()

    @staticmethod
    def generate(path: Path, seed: int, count: int) -> None:
        script = MODELS.parent / "dist/models/corpus/generate.js"
        subprocess.run(["node", script, "--seed", str(seed), "--count", str(count), "--out", path], check=True)

    @classmethod
    def train(cls, command: str, name: str, *options: str) -> list[float]:
        arguments = ["--corpus", f"{cls.folder}/train.jsonl", "--holdout", f"{cls.folder}/holdout.jsonl", "--run", f"{cls.folder}/{name}"]
        arguments += ["--out", f"{cls.folder}/{name}.gguf", "--steps", str(STEPS), "--tokens-per-step", "1024", "--tokens-per-pass", "512"]
        return create_run(parse_args([command, *arguments, *options])).train()

    def assert_same(self, one: list[float], other: list[float]) -> None:
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=1e-3)

    def test_same_seed_same_losses(self) -> None:
        self.assert_same(self.train("pretrain", "again", "--preset", "toy"), self.base_losses)
        self.assertLess(self.base_losses[-1], self.base_losses[0])

    def test_other_seed_other_losses(self) -> None:
        self.assertNotAlmostEqual(self.train("pretrain", "other", "--preset", "toy", "--seed", "2")[-1], self.base_losses[-1], delta=1e-4)

    def test_resumed_run_equals_uninterrupted(self) -> None:
        first = self.train("pretrain", "resumed", "--preset", "toy", "--stop-after", "3")
        self.assert_same(first + self.train("pretrain", "resumed", "--preset", "toy"), self.base_losses)

    def test_file_computes_what_the_network_computes(self) -> None:
        path = self.folder / "base.gguf"
        network, _ = load_gguf(path)
        network.load_state_dict(torch.load(self.folder / "base/checkpoint.pt")["model"])
        self.assertLess(largest_difference(Reference(path), network), 1e-3)

    def test_quantised_file_is_the_same_but_for_rounding(self) -> None:
        source, target = self.folder / "base.gguf", self.folder / "base-q8_0.gguf"
        quantize(source, target)
        before, after = gguf.GGUFReader(str(source)), gguf.GGUFReader(str(target))
        contents = lambda reader: {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        self.assertEqual(contents(after), {**contents(before), "general.file_type": gguf.LlamaFileType.MOSTLY_Q8_0})
        for one, other in zip(before.tensors, after.tensors, strict=True):
            values = gguf.quants.dequantize(other.data, other.tensor_type)
            self.assertEqual((one.name, one.data.shape), (other.name, values.shape))
            self.assertLessEqual(np.abs(one.data - values).max(), np.abs(one.data).max() / 127)

    def test_mean_of_files(self) -> None:
        source, target = self.folder / "base.gguf", self.folder / "mean.gguf"
        other = self.folder / "shifted.gguf"
        network, tokenizer = load_gguf(source)
        with torch.no_grad():
            network.embed.weight += 0.5
        export(network, tokenizer, other)
        average([source, other], target)
        weights = lambda path: load_gguf(path)[0].embed.weight
        self.assertLess((weights(target) - weights(source) - 0.25).abs().max().item(), 1e-3)
        with self.assertRaisesRegex(ValueError, "files of one network"):
            average([source, MODELS / "mill-base.gguf"], target)

    def test_cut_chats_have_an_answer(self) -> None:
        chats = encode_chats(load_gguf(self.folder / "base.gguf")[1], self.folder / "train.jsonl")
        stream = TrainingStream(chats, TrainConfig(prompt_share=0.0), 48, seed=1)
        self.assertLess(stream.is_usable.mean(), 1)
        for one in stream.next_step():
            has_answer = torch.zeros(one.ids.numel(), dtype=torch.bool)
            has_answer[one.positions] = True
            self.assertTrue(has_answer.view(one.ids.shape).any(dim=1).all())

    def test_every_usable_chat_is_read(self) -> None:
        chats = encode_chats(load_gguf(self.folder / "base.gguf")[1], self.folder / "train.jsonl")
        config = TrainConfig(chats_per_pool=len(chats) // 2 - 1)
        stream = TrainingStream(chats, config, 1024, seed=1)
        num_read = 0
        while stream.pool < 3:
            num_read += len(stream.next_pass().ids)
        self.assertEqual(num_read, int(stream.is_usable.sum()))
        stream.is_usable[: config.chats_per_pool] = False
        stream.cursor = (0, 0)
        stream.next_pass()
        self.assertEqual(stream.pool, 1)

    def test_goes_on_where_a_pool_has_fewer_passes_than_were_taken(self) -> None:
        chats = encode_chats(load_gguf(self.folder / "base.gguf")[1], self.folder / "train.jsonl")
        stream = TrainingStream(chats, TrainConfig(tokens_per_pass=4096, chats_per_pool=64), 1024, seed=1)
        stream.cursor = (0, 60)
        stream.next_pass()
        self.assertEqual(stream.cursor, (1, 1))

    def test_answers_begin_as_they_do_when_served(self) -> None:
        tokenizer = load_gguf(self.folder / "base.gguf")[1]
        path = self.folder / "blank.jsonl"
        answer = "\n\n  Yes."
        messages = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": answer}]
        path.write_text(json.dumps({"family": "blank", "messages": messages}) + "\n", encoding="utf-8")
        chats = encode_chats(tokenizer, path)
        prompt = tokenizer.encode(render(messages[:1], is_prompt=True)).ids
        self.assertEqual(chats.ids[: len(prompt)].tolist(), prompt)
        self.assertEqual(tokenizer.decode(chats.ids[chats.is_answer].tolist()), answer)
        self.assertEqual(chats.first_answers().tolist(), [len(prompt)])

    def test_only_the_last_answer_is_a_teachers(self) -> None:
        tokenizer = load_gguf(self.folder / "base.gguf")[1]
        path = self.folder / "turns.jsonl"
        messages = [{"role": role, "content": text} for role, text in (("user", "One?"), ("assistant", "1"), ("user", "Two?"), ("assistant", "2"))]
        lines = [{"family": "turns", "messages": messages}, {"family": "turns", "messages": messages, "answers": "last"}]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        chats = encode_chats(tokenizer, path)
        both, last = (tokenizer.decode(chats.ids[begin:end][chats.is_answer[begin:end]].tolist()) for begin, end in pairwise(chats.starts))
        self.assertEqual((both, last), ("12", "2"))
        self.assertGreater(chats.first_answers()[1], chats.first_answers()[0])

    def test_departures_are_where_copying_goes_wrong(self) -> None:
        # Two chats: 2 3 is followed by 4 twice and then by 5; the second chat must ignore the first.
        ids = np.array([2, 3, 4, 2, 3, 4, 2, 3, 5, 2, 3, 6], dtype=np.uint16)
        self.assertEqual(np.flatnonzero(departures(ids, np.array([0, 9, 12]))).tolist(), [8])

    def test_departures_count_more(self) -> None:
        chats = encode_chats(load_gguf(self.folder / "base.gguf")[1], self.folder / "train.jsonl")
        self.assertGreater(chats.departs.sum(), 0)
        self.assertFalse((chats.departs & ~chats.is_answer).any())
        (one, *_) = TrainingStream(chats, TrainConfig(departure_weight=7.0), 256, seed=1).next_step()
        self.assertEqual(set(one.weights[one.is_answer].tolist()), {1.0, 7.0})

    def test_starts_from_a_file(self) -> None:
        losses = self.train("pretrain", "continued", "--init-from", f"{self.folder}/base.gguf")
        self.assertLess(losses[0], self.base_losses[0] - 0.1)

    def test_distils_distributions(self) -> None:
        losses = self.train("distill", "draft", "--teacher", f"{self.folder}/base.gguf", "--preset", "toy")
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(load_gguf(self.folder / "draft.gguf")[1].to_str(), load_gguf(self.folder / "base.gguf")[1].to_str())

    def test_distils_sequences(self) -> None:
        losses = self.train("distill-sequences", "student", "--teacher", f"{self.folder}/base.gguf", "--preset", "toy")
        self.assertLess(losses[-1], losses[0])

    def test_sequences_need_the_tokenizer_alone(self) -> None:
        """The teacher's tensors have a form that this network cannot read."""
        writer = gguf.GGUFWriter(str(self.folder / "packed.gguf"), "qwen2")
        tokenizer = load_gguf(self.folder / "base.gguf")[1]
        add_tokenizer(writer, tokenizer)
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor("token_embd.weight", gguf.quantize(np.ones((512, 64), dtype=np.float32), kind), raw_dtype=kind)
        write_file(writer, self.folder / "packed.gguf", self.folder / "packed.gguf")
        losses = self.train("distill-sequences", "packed-student", "--teacher", f"{self.folder}/packed.gguf", "--preset", "toy")
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(load_gguf(self.folder / "packed-student.gguf")[1].to_str(), tokenizer.to_str())

    def test_a_run_that_diverges_is_an_error(self) -> None:
        with self.assertRaisesRegex(FloatingPointError, "expected finite losses and gradients, got .*nan at step"):
            self.train("pretrain", "diverged", "--preset", "toy", "--lr-scale", "1e30")

    def test_a_finished_run_is_scored_again(self) -> None:
        log = lambda: [json.loads(line) for line in (self.folder / "finished/log.jsonl").read_text().splitlines()]
        self.train("pretrain", "finished", "--preset", "toy", "--score-steps", str(STEPS))
        self.train("pretrain", "finished", "--preset", "toy", "--score-steps", str(STEPS))
        self.assertEqual([entry["step"] for entry in log() if "held_out" in entry], [STEPS, STEPS])

    def test_reads_quantized_files(self) -> None:
        quantize(self.folder / "base.gguf", self.folder / "base-q8_0.gguf")
        (exact, _), (rounded, _) = (load_gguf(self.folder / name) for name in ("base.gguf", "base-q8_0.gguf"))
        for (name, weights), same in zip(exact.named_parameters(), rounded.parameters(), strict=True):
            # The error is at most half a step; 127 steps span the largest of 32 values.
            self.assertLessEqual((weights - same).abs().max(), weights.abs().max() / 250, name)

    def test_trains_heads(self) -> None:
        for name, options in {"medusa": ["--kind", "medusa"], "eagle": [], "narrow": ["--width", "32"]}.items():
            losses = self.train("heads", name, "--base", f"{self.folder}/base.gguf", "--depth", "2", *options)
            # A base trained for eight steps is hardly predictable, so the loss itself is not checked.
            self.assertTrue(all(math.isfinite(loss) for loss in losses))
            self.assertTrue((self.folder / f"{name}.gguf").exists())

    def test_eagle_chain_sees_only_what_was_certain(self) -> None:
        for width in (64, 32):
            with self.subTest(width=width):
                self.check_chain(width)

    def check_chain(self, width: int) -> None:
        """A guess must not depend on tokens after those it is made from."""
        base, _ = load_gguf(self.folder / "base.gguf")
        torch.manual_seed(1)
        heads = create_heads("eagle", base.config, 3, width)
        ids = torch.randint(3, 500, (1, 20))
        changed = ids.clone()
        changed[0, 14:] = 5
        with torch.no_grad():
            before, after = (self.guesses(heads, base, x) for x in (ids, changed))
        for depth in range(3):
            # Entry t of this depth depends on the tokens up to t + depth + 1.
            last = 13 - depth - 1
            torch.testing.assert_close(before[depth][0, : last + 1], after[depth][0, : last + 1])
            self.assertFalse(torch.allclose(before[depth][0, last + 1], after[depth][0, last + 1]))

    def guesses(self, heads: torch.nn.Module, base: Mill, ids: torch.Tensor) -> list[torch.Tensor]:
        past: list = []
        hidden = base.hidden(ids, past)
        return heads(base, hidden, past, ids)

    @torch.no_grad()
    def test_writes_guesses_for_the_engine(self) -> None:
        _, tokenizer = load_gguf(self.folder / "base.gguf")
        torch.manual_seed(1)
        base = Mill(PRESETS["toy"])
        heads = {"medusa": create_heads("medusa", base.config, 4), "eagle": create_heads("eagle", base.config, 4), "narrow": create_heads("eagle", base.config, 4, 32)}
        for parameter in (p for network in (base, *heads.values()) for p in network.parameters() if p.dim() == 2):
            # Larger weights than at the start of training, so that guesses differ; rounded to half, as in the files.
            parameter.copy_((torch.randn_like(parameter) / parameter.shape[1] ** 0.5).half())
        export(base, tokenizer, self.folder / "random.gguf")
        lines = self.eagle3_guesses(base)
        for name, network in heads.items():
            export_heads(network, base.config, self.folder / f"random-{name}.gguf")
            for length in (12, 40, 97):
                ids = torch.randint(3, 500, (1, length))
                guesses: list[int] = []
                for depth in range(4):
                    known = torch.cat((ids, torch.tensor([guesses], dtype=torch.long)), dim=1)
                    state = self.guesses(network, base, known)[depth][0, length - 2]
                    guesses.append(int(network.logits(base, state).argmax()))
                lines.append(json.dumps({"heads": name, "ids": ids[0].tolist(), "guesses": guesses}))
        (self.folder / "guesses.jsonl").write_text("\n".join(lines))

    def eagle3_guesses(self, base: Mill) -> list[str]:
        config = base.config
        heads = dict(numHeads=4, numKvHeads=2, headDim=32, ffWidth=96, inputLayers=[1, 0, 1])
        facts = dict(width=config.hidden_size, vocabSize=config.vocab_size, contextLength=config.context_length, rmsEps=config.norm_eps, **heads)
        known = np.arange(0, config.vocab_size, 3)
        arrays = dict(ids=known, starts=np.array([0, len(known)]), is_answer=known >= 0, departs=known < 0)
        chats = EncodedChats(name="known", families=["chat"], family_of=np.array([0]), **arrays)
        head = Eagle3(States(facts, np.empty(0), base.embed.weight, base.embed.weight, chats, chats), 4)
        for parameter in head.parameters():
            size = parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 1.0
            parameter.copy_((torch.randn_like(parameter) * size).half())
        export_eagle3(head, self.folder / "random-eagle3")
        lines = []
        for length in (12, 40, 97):
            ids = torch.randint(3, 500, (1, length))
            guesses: list[int] = []
            for depth in range(4):
                text = torch.cat((ids, torch.tensor([guesses], dtype=torch.long)), dim=1)
                inputs: list[torch.Tensor] = []
                base.hidden(text, inputs=inputs)
                fused = torch.cat([inputs[layer] for layer in facts["inputLayers"]], dim=-1)
                state = head(fused, text, base.embed.weight)[depth][0, length - 2]
                guesses.append(int(head.tokens[head.logits(state).argmax()]))
            lines.append(json.dumps({"heads": "eagle3", "ids": ids[0].tolist(), "guesses": guesses}))
        return lines

    def test_writes_token_ids_for_the_engine(self) -> None:
        tokenizer = Reference(self.folder / "base.gguf").tokenizer
        texts = [render(chat["messages"]) for chat in read_chats(self.folder / "holdout.jsonl")]
        for text in texts:
            self.assertEqual(tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False), text)
        lines = [json.dumps({"text": text, "tokens": tokenizer.encode(text).ids}) for text in texts]
        (self.folder / "tokens.jsonl").write_text("\n".join(lines))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
