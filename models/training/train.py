"""Trains the mill family: `train.py pretrain | distill | distill-sequences | heads | eagle3`. See ../README.md for the commands of each model."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer

from batches import TrainingStream
from chats import encode_chats, read_chats, train_tokenizer
from config import PRESETS, TrainConfig
from eagle3 import Eagle3, MatchStates, export_eagle3, load_states
from export import export, load_gguf, load_tokenizer
from heads import MatchBase, create_heads, export_heads
from network import Mill
from objectives import MatchTeacher, NextToken
from optimizer import MillOptimizer
from run import Run, RunOptions

MODELS = Path(__file__).parent.parent


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--corpus", type=Path, required=True, help="chats as JSON lines")
    common.add_argument("--holdout", type=Path, required=True, help="chats whose loss is logged by family")
    common.add_argument("--holdout-chats", type=int, default=200)
    common.add_argument("--score-steps", type=int, default=100, help="steps between two held-out losses")
    common.add_argument("--run", type=Path, required=True, help="folder of checkpoint, log and, at first, tokenizer")
    common.add_argument("--out", type=Path, required=True, help="GGUF file, written with every checkpoint")
    common.add_argument("--steps", type=int, required=True)
    common.add_argument("--decay-steps", type=int, help="of the steps, the last ones, over which the rate falls to zero (default: 35 %%)")
    common.add_argument("--stop-after", type=int, help="end after this many steps of this process")
    common.add_argument("--checkpoint-minutes", type=float, default=5.0, help="processor minutes between two checkpoints")
    common.add_argument("--seed", type=int, default=1)
    common.add_argument("--threads", type=int, default=2)
    common.add_argument("--device", default="cpu", help="cpu or cuda")
    common.add_argument("--f32", action="store_true", help="no bfloat16 products where the device has them")
    common.add_argument("--compile", action="store_true", help="compile the network: slow to start, faster after")
    common.add_argument("--lr-scale", type=float, default=1.0, help="times the configured rates")
    common.add_argument(
        "--departure-weight",
        type=float,
        help="what an answer's token counts where copying on would go wrong; above 1 for exercises of copying, 1 where the odds themselves matter "
        f"(default: {TrainConfig.departure_weight:g} for pretrain, else 1)",
    )
    common.add_argument("--tokens-per-step", type=int, default=TrainConfig.tokens_per_step)
    common.add_argument("--tokens-per-pass", type=int, default=TrainConfig.tokens_per_pass)
    common.add_argument("--max-length", type=int, help="chats are cut after this many tokens, and left out where no answer comes before (default: the context)")

    pretrain = commands.add_parser("pretrain", parents=[common], help="next tokens of the corpus")
    pretrain.add_argument("--preset", choices=list(PRESETS), default="base")
    pretrain.add_argument("--init-from", type=Path, help="GGUF whose weights and tokenizer to start from")
    distill = commands.add_parser("distill", parents=[common], help="a teacher's distributions")
    distill.add_argument("--teacher", type=Path, required=True)
    distill.add_argument("--preset", choices=list(PRESETS), default="draft")
    distill.add_argument("--init-from", type=Path)
    sequences = commands.add_parser("distill-sequences", parents=[common], help="a teacher's answers: --corpus holds them")
    sequences.add_argument("--teacher", type=Path, required=True, help="whose tokenizer is used")
    sequences.add_argument("--preset", choices=list(PRESETS), default="student")
    sequences.add_argument("--init-from", type=Path)
    heads = commands.add_parser("heads", parents=[common], help="heads that guess several tokens of a base")
    heads.add_argument("--base", type=Path, required=True)
    heads.add_argument("--kind", choices=["medusa", "eagle"], default="eagle")
    heads.add_argument("--depth", type=int, default=4, help="tokens guessed ahead")
    heads.add_argument("--width", type=int, help="of an EAGLE-style layer; below the base's it has an output matrix of its own (default: the base's)")
    eagle3 = commands.add_parser("eagle3", parents=[common], help="an EAGLE-3 head for any model, from its states; the chats are in their folder")
    eagle3.add_argument("--states", type=Path, required=True, help="folder that train-drafter writes")
    eagle3.add_argument("--depth", type=int, default=4, help="tokens guessed ahead")
    return parser.parse_args(argv)


def product_dtype(args: argparse.Namespace) -> torch.dtype:
    """bfloat16 if the device multiplies in it natively; a processor without support is about a hundred times slower with it."""
    if args.device == "cpu":
        has = torch.cpu.get_capabilities()
        is_fast = any(has.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    else:
        is_fast = True
    return torch.bfloat16 if is_fast and not args.f32 else torch.float32


def train_config(args: argparse.Namespace) -> TrainConfig:
    usual = TrainConfig.departure_weight if args.command == "pretrain" else 1.0
    departure_weight = usual if args.departure_weight is None else args.departure_weight
    config = TrainConfig(tokens_per_step=args.tokens_per_step, tokens_per_pass=args.tokens_per_pass, departure_weight=departure_weight)
    return replace(config, matrix_lr=config.matrix_lr * args.lr_scale, other_lr=config.other_lr * args.lr_scale)


def own_tokenizer(args: argparse.Namespace) -> Tokenizer:
    """The run's tokenizer, trained at the run's first start."""
    path = args.run / "tokenizer.json"
    if not path.exists():
        args.run.mkdir(parents=True, exist_ok=True)
        chats = (chat for _, chat in zip(range(30000), read_chats(args.corpus)))
        train_tokenizer(chats, PRESETS[args.preset].vocab_size).save(str(path))
    return Tokenizer.from_file(str(path))


def create_model(args: argparse.Namespace) -> tuple[Mill, Tokenizer]:
    """The network to train and its tokenizer; a checkpoint, if there is one, later replaces its weights."""
    torch.manual_seed(args.seed)
    preset = PRESETS[args.preset]
    if args.init_from is not None:
        model, tokenizer = load_gguf(args.init_from)
        if args.command != "pretrain":
            model.config = replace(model.config, name=preset.name, description=preset.description)
        return model, tokenizer
    if args.command == "pretrain":
        return Mill(preset), own_tokenizer(args)
    if args.command == "distill-sequences":
        tokenizer = load_tokenizer(args.teacher)
        return Mill(replace(preset, vocab_size=tokenizer.get_vocab_size())), tokenizer
    teacher, tokenizer = load_gguf(args.teacher)
    # A draft model needs its teacher's tokenizer and context length.
    return Mill(replace(preset, vocab_size=tokenizer.get_vocab_size(), context_length=teacher.config.context_length)), tokenizer


def create_run(args: argparse.Namespace) -> Run:
    torch.set_num_threads(args.threads)
    config = train_config(args)
    if args.command == "eagle3":
        torch.manual_seed(args.seed)
        states = load_states(args.states)
        model = Eagle3(states, args.depth).to(args.device)
        objective, export_file = MatchStates(model, states, args.device), partial(export_eagle3, model, args.out)
        max_length = states.facts["contextLength"] - args.depth
        training, held_out = states.training, states.held_out
    elif args.command == "heads":
        torch.manual_seed(args.seed)
        base, tokenizer = load_gguf(args.base)
        base.to(args.device).requires_grad_(False)
        model = create_heads(args.kind, base.config, args.depth, args.width).to(args.device)
        if args.kind == "eagle":
            model.start_from(base)
        objective, export_file = MatchBase(model, base), partial(export_heads, model, base.config, args.out)
        max_length = base.config.context_length - args.depth
    else:
        model, tokenizer = create_model(args)
        model.to(args.device)
        export_file = partial(export, model, tokenizer, args.out)
        max_length = model.config.context_length
        if args.command == "distill":
            objective = MatchTeacher(model, load_gguf(args.teacher)[0].to(args.device).requires_grad_(False))
        else:
            objective = NextToken(model)
        if args.compile:
            model.compile_layers()
    if args.command != "eagle3":
        training, held_out = encode_chats(tokenizer, args.corpus), encode_chats(tokenizer, args.holdout, args.holdout_chats)
    options = RunOptions(
        folder=args.run,
        steps=args.steps,
        decay_steps=max(1, round(0.35 * args.steps)) if args.decay_steps is None else args.decay_steps,
        stop_after=args.stop_after,
        checkpoint_minutes=args.checkpoint_minutes,
        score_steps=args.score_steps,
        device=args.device,
        product_dtype=product_dtype(args),
    )
    return Run(
        options,
        model,
        MillOptimizer(model, model.layers, config, options.product_dtype),
        TrainingStream(training, config, min(max_length, args.max_length or max_length), args.seed),
        held_out,
        objective,
        export_file,
    )


if __name__ == "__main__":
    create_run(parse_args()).train()
