"""Writes a model folder of an architecture with random weights and the tokenizer of another folder, small enough for a CPU, with
widths that every quantised format supports.

    python random-folder.py qwen35|qwen35moe|qwen3next|gemma4|gemma4_e|gemma4_moe TOKENIZER-FOLDER OUT

Weights are large enough to make some tokens far likelier than others, and to let each layer change the likeliest ones.
"""
import os
import shutil
import sys

import torch
import transformers

COMMON = dict(
    hidden_size=256,
    intermediate_size=512,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
    bos_token_id=None,
    pad_token_id=None,
    eos_token_id=None,
)
DELTA = {
    **COMMON,
    "num_hidden_layers": 4,
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "layer_types": ["linear_attention", "full_attention"] * 2,
}
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128, shared_expert_intermediate_size=128)
GEMMA4 = {
    **COMMON,
    "num_hidden_layers": 6,
    "head_dim": 64,
    "global_head_dim": 128,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "hidden_size_per_layer_input": 0,
}
SHARED = dict(num_global_key_value_heads=1, attention_k_eq_v=True)
MODELS = {
    "qwen35": ("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", DELTA),
    "qwen35moe": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig", {**DELTA, **EXPERTS}),
    "qwen3next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", {**DELTA, **EXPERTS}),
    "gemma4": ("Gemma4ForCausalLM", "Gemma4TextConfig", {**GEMMA4, **SHARED, "final_logit_softcapping": 30.0}),
    "gemma4_e": (
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        {**GEMMA4, "hidden_size_per_layer_input": 64, "num_kv_shared_layers": 2, "use_double_wide_mlp": True},
    ),
    "gemma4_moe": (
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        {**GEMMA4, **SHARED, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 128},
    ),
}


def main():
    name, tokenizer, out = sys.argv[1:]
    vocab = transformers.AutoConfig.from_pretrained(tokenizer).vocab_size
    model_class, config_class, settings = MODELS[name]
    if settings.get("hidden_size_per_layer_input"):
        settings = {**settings, "vocab_size_per_layer_input": vocab}
    config = getattr(transformers, config_class)(vocab_size=vocab, **settings)
    model = getattr(transformers, model_class)(config)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 1.2 / parameter.shape[-1] ** 0.5, generator=generator)
    model.to(torch.bfloat16).save_pretrained(out)
    os.remove(os.path.join(out, "generation_config.json"))
    for file in os.listdir(tokenizer):
        if file.startswith("tokenizer") or file in ("chat_template.jinja", "special_tokens_map.json"):
            shutil.copy(os.path.join(tokenizer, file), out)


if __name__ == "__main__":
    main()
