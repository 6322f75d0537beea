"""LoRA on a teacher's answers, for any model of the hub. Run it next to train.jsonl and eval.jsonl from `millrace distill`.

  python3 -m pip install "trl>=0.20" peft datasets
  python3 lora.py Qwen/Qwen2.5-0.5B-Instruct
  millrace serve --model merged

The loss covers only answers, because the files separate prompts and completions. LoRA needs a rate ten times that of full training and adapters on
all linear layers; if memory is short, halve the batch and double the accumulation.
"""

import argparse
import hashlib
from pathlib import Path

import torch
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

FOLDER = Path(__file__).parent

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="of the hub, or a folder")
parser.add_argument("--epochs", type=float, default=3)
parser.add_argument("--rate", type=float, default=2e-4)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--max-length", type=int, default=2048)
parser.add_argument("--out", type=Path, default=FOLDER / "merged", help="folder of the model with the adapters added to its weights")
args = parser.parse_args()

# The folder's name depends on model, settings and data: an identical run resumes from its checkpoint, any other run starts anew.
terms = [args.model, args.epochs, args.rate, args.rank, args.max_length, hashlib.sha256((FOLDER / "train.jsonl").read_bytes()).hexdigest()]
CHECKPOINTS = FOLDER / f"lora-{hashlib.sha256(repr(terms).encode()).hexdigest()[:8]}"

has_cuda = torch.cuda.is_available()
trainer = SFTTrainer(
    model=args.model,
    args=SFTConfig(
        output_dir=str(CHECKPOINTS),
        num_train_epochs=args.epochs,
        learning_rate=args.rate,
        lr_scheduler_type="cosine",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        max_length=args.max_length,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_steps=10,
        bf16=has_cuda and torch.cuda.is_bf16_supported(),
        use_cpu=not has_cuda,
        report_to="none",
    ),
    train_dataset=load_dataset("json", data_files=str(FOLDER / "train.jsonl"), split="train"),
    eval_dataset=load_dataset("json", data_files=str(FOLDER / "eval.jsonl"), split="train"),
    peft_config=LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train(resume_from_checkpoint=any(CHECKPOINTS.glob("checkpoint-*")))
trainer.model.merge_and_unload().save_pretrained(args.out)
trainer.processing_class.save_pretrained(args.out)
