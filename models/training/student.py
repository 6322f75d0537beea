"""Trains a student of any family on a teacher's answers: LoRA, or all weights. Run it in the folder that `millrace distill --student` writes.

  python3 -m pip install torch transformers peft accelerate
  python3 student.py                                      # one process: the CPU, or one GPU
  torchrun --standalone --nproc-per-node=gpu student.py   # all GPUs of a machine

recipe.json has the settings, and train.jsonl and eval.jsonl token ids: prompts as the student's own template has them when millrace serves it, answers
behind them up to the end of the turn. The loss is of the answers only. A stopped run goes on from its last checkpoint. The result is the folder
`student`: an adapter, or the whole model; `millrace adopt student` brings it back.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, set_seed

FOLDER = Path(__file__).parent
# Files of the text side, which training leaves as they are.
TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json", "generation_config.json")
IGNORED = -100


class Answers(torch.utils.data.Dataset):
    """Lines of {"ids", "num_prompt"}: token ids of a chat, and how many of them are its prompt."""

    def __init__(self, path: Path):
        self.lines = [json.loads(line) for line in path.read_text().splitlines()]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        return self.lines[index]


def batch_of(lines):
    """Pads on the right. Padding is not attended to, so any id does for it."""
    longest = max(len(line["ids"]) for line in lines)
    ids = torch.zeros(len(lines), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for row, line in enumerate(lines):
        length, num_prompt = len(line["ids"]), line["num_prompt"]
        ids[row, :length] = torch.tensor(line["ids"])
        mask[row, :length] = 1
        labels[row, num_prompt:length] = ids[row, num_prompt:length]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the student's folder, where it lies elsewhere on this machine (default: recipe.json's)")
    parser.add_argument("--batch", type=int, help="chats of a device at once (default: recipe.json's)")
    args = parser.parse_args()
    recipe = json.loads((FOLDER / "recipe.json").read_text())
    base = args.base or recipe["base"]
    has_gpu = torch.cuda.is_available()
    has_bf16 = has_gpu and torch.cuda.is_bf16_supported()
    set_seed(recipe["seed"])
    # Whole weights are trained in f32, since small steps are lost in bfloat16; those of a LoRA's base never move.
    is_lora = recipe["method"] == "lora"
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16 if is_lora and has_bf16 else torch.float32)
    config = json.loads((Path(base) / "config.json").read_text()) if Path(base).is_dir() else {}
    dtype = config.get("dtype") or config.get("torch_dtype")
    if is_lora:
        from peft import LoraConfig, get_peft_model

        rank = recipe["rank"]
        model = get_peft_model(
            model, LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        )
    model.config.use_cache = False
    # Named by all that the result depends on: the same run goes on from its checkpoint, any other begins anew.
    batch = args.batch or recipe["batch"]
    checkpoints = FOLDER / f"run-{recipe['run']}-{batch}x{os.environ.get('WORLD_SIZE', '1')}"
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(checkpoints),
            max_steps=recipe["steps"],
            learning_rate=recipe["rate"],
            lr_scheduler_type="cosine",
            warmup_steps=max(1, recipe["steps"] // 20),
            per_device_train_batch_size=batch,
            per_device_eval_batch_size=batch,
            save_steps=max(1, recipe["steps"] // 5),
            save_total_limit=2,
            logging_steps=max(1, recipe["steps"] // 20),
            seed=recipe["seed"],
            bf16=has_bf16,
            use_cpu=not has_gpu,
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Answers(FOLDER / "train.jsonl"),
        eval_dataset=Answers(FOLDER / "eval.jsonl"),
        data_collator=batch_of,
    )
    trainer.train(resume_from_checkpoint=any(checkpoints.glob("checkpoint-*")))
    loss = trainer.evaluate()["eval_loss"]
    if not trainer.is_world_process_zero():
        return
    out = FOLDER / "student"
    partial = FOLDER / "student.partial"
    shutil.rmtree(partial, ignore_errors=True)
    trained = trainer.accelerator.unwrap_model(trainer.model)
    if not is_lora:
        trained.config.use_cache = True
        trained = trained.to(getattr(torch, dtype)) if dtype in ("bfloat16", "float16") else trained
    trained.save_pretrained(partial)
    if not is_lora and Path(base).is_dir():
        for name in TEXT_FILES:
            if (Path(base) / name).exists():
                shutil.copyfile(Path(base) / name, partial / name)
    (partial / "training.json").write_text(json.dumps({**recipe, "eval_loss": loss}) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    print(f"held-out loss {loss:.4f}, written: {out}", flush=True)


main()
