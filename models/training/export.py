"""Writes a network and its tokenizer as a GGUF file of architecture "llama" (matrices F16, norms F32), and reads it back."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from chats import CHAT_TEMPLATE, END_OF_TEXT_ID, IM_END_ID, PRE_TOKENIZER_NAME, SPECIALS, assemble_tokenizer
from config import ModelConfig
from network import Mill

# GGUF's llama rotates pairs (2i, 2i + 1), this network (i, i + half), so the rows of these matrices are reordered within each head.
ROTATED = {"attn_q": "num_heads", "attn_k": "num_kv_heads"}


def interleave(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    rows, columns = weight.shape
    return weight.view(num_heads, 2, rows // num_heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def deinterleave(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    rows, columns = weight.shape
    return weight.view(num_heads, rows // num_heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def add_metadata(writer: gguf.GGUFWriter, model: Mill) -> None:
    config = model.config
    writer.add_name(config.name)
    writer.add_description(config.description)
    writer.add_license("apache-2.0")
    writer.add_size_label(f"{model.num_parameters() / 1e6:.1f}M")
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
    # Greedy answers of models this small are correct more often; requests may override this.
    writer.add_float32("general.sampling.temp", 0.0)


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    data = json.loads(tokenizer.to_str())["model"]
    tokens = [token for token, _ in sorted(data["vocab"].items(), key=lambda item: item[1])]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["merges"]]
    types = [gguf.TokenType.CONTROL if token in SPECIALS else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER_NAME)
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
    half = lambda tensor: tensor.cpu().contiguous().numpy().astype(np.float16)
    full = lambda tensor: tensor.cpu().contiguous().numpy().astype(np.float32)
    writer.add_tensor("token_embd.weight", half(model.embed.weight))
    writer.add_tensor("output_norm.weight", full(model.final_norm))
    for index, layer in enumerate(model.layers):
        writer.add_tensor(f"blk.{index}.attn_norm.weight", full(layer.attn_norm))
        writer.add_tensor(f"blk.{index}.ffn_norm.weight", full(layer.ffn_norm))
        for name, (parameter, rows) in layer.sections().items():
            matrix = parameter[rows]
            if name in ROTATED:
                matrix = interleave(matrix, getattr(model.config, ROTATED[name]))
            writer.add_tensor(f"blk.{index}.{name}.weight", half(matrix))


def write_file(writer: gguf.GGUFWriter, partial: Path, path: Path) -> None:
    """Writes to a file next to the target first, so that a reader never sees a partial file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(path)


def export(model: Mill, tokenizer: Tokenizer, path: Path) -> None:
    partial = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), "llama")
    add_metadata(writer, model)
    add_tokenizer(writer, tokenizer)
    add_tensors(writer, model)
    write_file(writer, partial, path)


def tokenizer_of(reader: gguf.GGUFReader) -> Tokenizer:
    names = ("tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.merges")
    return assemble_tokenizer(*(reader.get_field(name).contents() for name in names))


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file of the family, whatever the type of its tensors, including quantised ones."""
    return tokenizer_of(gguf.GGUFReader(str(path)))


@torch.no_grad()
def load_gguf(path: Path) -> tuple[Mill, Tokenizer]:
    """Loads a file from `export` or `quantize.py` in float32."""
    reader = gguf.GGUFReader(str(path))
    field = lambda key: reader.get_field(key).contents()
    config = ModelConfig(
        name=field("general.name"),
        description=field("general.description"),
        hidden_size=field("llama.embedding_length"),
        num_layers=field("llama.block_count"),
        num_heads=field("llama.attention.head_count"),
        num_kv_heads=field("llama.attention.head_count_kv"),
        ffn_size=field("llama.feed_forward_length"),
        vocab_size=len(field("tokenizer.ggml.tokens")),
        context_length=field("llama.context_length"),
        rope_base=field("llama.rope.freq_base"),
        norm_eps=field("llama.attention.layer_norm_rms_epsilon"),
    )
    weights = {tensor.name: torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)) for tensor in reader.tensors}
    model = Mill(config)
    model.embed.weight.copy_(weights["token_embd.weight"])
    model.final_norm.copy_(weights["output_norm.weight"])
    for index, layer in enumerate(model.layers):
        layer.attn_norm.copy_(weights[f"blk.{index}.attn_norm.weight"])
        layer.ffn_norm.copy_(weights[f"blk.{index}.ffn_norm.weight"])
        for name, (parameter, rows) in layer.sections().items():
            matrix = weights[f"blk.{index}.{name}.weight"]
            if name in ROTATED:
                matrix = deinterleave(matrix, getattr(config, ROTATED[name]))
            parameter[rows] = matrix
    return model, tokenizer_of(reader)
