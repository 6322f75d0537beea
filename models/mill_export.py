"""Writes the network and its tokenizer as a GGUF file of architecture "llama": matrices F16, norms F32."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from mill_data import CHAT_TEMPLATE, END_OF_TEXT_ID, IM_END_ID, SPECIALS
from mill_model import Mill


def interleave(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """GGUF's llama rotates pairs (2i, 2i+1), the network here (i, i + half): reorder the rows of each head."""
    rows, columns = weight.shape
    return weight.view(num_heads, 2, rows // num_heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def add_metadata(writer: gguf.GGUFWriter, model: Mill) -> None:
    config = model.config
    writer.add_name("mill-base")
    writer.add_description("A small chat model trained from scratch on generated dialogues; bundled with millrace.")
    writer.add_license("apache-2.0")
    writer.add_size_label(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.ffn_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_rope_dimension_count(config.head_size)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_layer_norm_rms_eps(config.norm_eps)


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    data = json.loads(tokenizer.to_str())["model"]
    tokens = [token for token, _ in sorted(data["vocab"].items(), key=lambda item: item[1])]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["merges"]]
    types = [gguf.TokenType.CONTROL if token in SPECIALS else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(END_OF_TEXT_ID)
    writer.add_eos_token_id(IM_END_ID)
    writer.add_pad_token_id(END_OF_TEXT_ID)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


@torch.no_grad()
def add_tensors(writer: gguf.GGUFWriter, model: Mill) -> None:
    config = model.config
    half = lambda tensor: tensor.contiguous().numpy().astype(np.float16)
    full = lambda tensor: tensor.contiguous().numpy().astype(np.float32)
    writer.add_tensor("token_embd.weight", half(model.embed.weight))
    writer.add_tensor("output_norm.weight", full(model.final_norm))
    for index, layer in enumerate(model.layers):
        matrices = {
            "attn_q": interleave(layer.q.weight, config.num_heads),
            "attn_k": interleave(layer.k.weight, config.num_kv_heads),
            "attn_v": layer.v.weight,
            "attn_output": layer.o.weight,
            "ffn_gate": layer.gate.weight,
            "ffn_up": layer.up.weight,
            "ffn_down": layer.down.weight,
        }
        writer.add_tensor(f"blk.{index}.attn_norm.weight", full(layer.attn_norm))
        writer.add_tensor(f"blk.{index}.ffn_norm.weight", full(layer.ffn_norm))
        for name, matrix in matrices.items():
            writer.add_tensor(f"blk.{index}.{name}.weight", half(matrix))


def export(model: Mill, tokenizer: Tokenizer, path: Path) -> None:
    """Writes beside the target first, so that a reader never sees half a file."""
    partial = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), "llama")
    add_metadata(writer, model)
    add_tokenizer(writer, tokenizer)
    add_tensors(writer, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(path)
