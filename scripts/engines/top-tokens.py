"""Prints the likeliest next token of vLLM or transformers at every position of given texts, and its log-probability: a line of
JSON for each model, {"model", "top": [[id, ...] of each text], "logprob": [[number, ...]]}, or {"model", "error"} if it
does not load.

    python top-tokens.py vllm texts.json FOLDER ... [--dtype float32] [--nvfp4-products torch]
    python top-tokens.py transformers texts.json FOLDER-OR-FILE.gguf ... [--activations f32|rounded]

texts.json is an array of texts as token ids. transformers computes in float32. The package gguf reads the weights of files,
compressed-tensors those of its folders, and the functions below those of AutoAWQ's, GPTQ's and NVFP4's folders, and of quantised
experts. --activations rounded rounds the inputs of each quantised matrix as in llama.cpp's CPU kernels, or by the folder's config.json.

vLLM's CPU build has no product with weights of NVFP4. --nvfp4-products torch loads them as usual, widens them with the function of
vLLM's emulation, and lets torch multiply.
"""
import argparse
import json
import os
import sys


def vllm_tops(folder, texts, dtype):
    # vLLM runs in this process, since imports take longer than a small model's texts.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM, SamplingParams
    from vllm.distributed import cleanup_dist_env_and_memory

    longest = max(len(ids) for ids in texts)
    llm = LLM(
        folder,
        dtype=dtype,
        max_model_len=longest + 1,
        max_num_seqs=len(texts),
        enforce_eager=True,
        distributed_executor_backend="uni",
    )
    sampling = SamplingParams(temperature=0, max_tokens=1, logprobs=1, prompt_logprobs=1, detokenize=False)
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in texts], sampling)
    best = lambda row: max(row.items(), key=lambda item: item[1].logprob)
    rows = [[best(row) for row in output.prompt_logprobs[1:] + output.outputs[0].logprobs] for output in outputs]
    del llm
    cleanup_dist_env_and_memory()
    return {
        "top": [[token for token, _ in text] for text in rows],
        "logprob": [[round(each.logprob, 6) for _, each in text] for text in rows],
    }


def multiply_nvfp4_with_torch():
    import torch
    from vllm.model_executor.kernels.linear.nvfp4.base import NvFp4LinearLayerConfig
    from vllm.model_executor.kernels.linear.nvfp4.emulation import EmulationNvFp4LinearKernel
    from vllm.model_executor.layers.quantization.compressed_tensors.schemes import compressed_tensors_w4a4_nvfp4 as scheme
    from vllm.model_executor.layers.quantization.utils.nvfp4_emulation_utils import dequantize_to_dtype

    class Widened(EmulationNvFp4LinearKernel):
        def process_weights_after_loading(self, layer):
            weight, scales, scale = layer.weight, layer.weight_scale, layer.weight_global_scale
            layer.widened = dequantize_to_dtype(weight.data, scales.data, scale.data, torch.float32, swizzle=False)

        def apply_weights(self, layer, x, bias=None):
            return torch.nn.functional.linear(x, layer.widened.to(x.dtype), bias)

    scheme.init_nvfp4_linear_kernel = lambda use_a16=False: Widened(NvFp4LinearLayerConfig())


def blocks_rounded(x, size, scale_of):
    import torch

    blocks = x.unflatten(-1, (-1, size))
    codes_scale, scale = scale_of(blocks)
    codes = torch.where(codes_scale == 0, 0, blocks / codes_scale).round().clamp(-127, 127)
    return (codes * scale).flatten(-2)


def q8_0(x):
    """GGML's Q8_0 and Q8_1: blocks of 32, with a half as scale."""

    def scale_of(blocks):
        scale = blocks.abs().amax(-1, keepdim=True) / 127
        return scale, scale.half().to(scale.dtype)

    return blocks_rounded(x, 32, scale_of)


def q8_k(x):
    """GGML's Q8_K: blocks of 256; the value of the largest magnitude becomes -127."""

    def scale_of(blocks):
        at = blocks.abs().argmax(-1, keepdim=True)
        scale = blocks.gather(-1, at) / -127
        return scale, scale

    return blocks_rounded(x, 256, scale_of)


def int8_per_token(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    return (x / scale).round().clamp(-127, 127) * scale


def e4m3_per_token(x):
    import torch

    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype) * scale


# The input types of llama.cpp's CPU kernels, by the weights' type.
GGML_INPUTS = {
    "F16": lambda x: x.half().to(x.dtype),
    **{name: q8_0 for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4")},
    **{name: q8_k for name in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")},
    **{name: q8_k for name in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0")},
}
GGUF_LAYERS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def file_inputs(path):
    """The rounding of each layer's inputs in a file, by the layer's name in transformers."""
    from gguf import GGUFReader

    types = {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(path).tensors}
    types.setdefault("output.weight", types["token_embd.weight"])
    found = {"lm_head": types["output.weight"]}
    for name, type_name in types.items():
        parts = name.split(".")
        if parts[0] == "blk" and parts[2] in GGUF_LAYERS:
            found[f"model.layers.{parts[1]}.{GGUF_LAYERS[parts[2]]}"] = type_name
    return {name: GGML_INPUTS[type_name] for name, type_name in found.items() if type_name != "F32"}


def folder_inputs(model, config):
    """The rounding that the folder's config.json states for its quantised layers."""
    inputs = config["config_groups"]["group_0"]["input_activations"]
    if inputs["num_bits"] != 8 or inputs["strategy"] != "token":
        raise ValueError(f"expected activations of 8 bits and a scale for each token, got {inputs}")
    rounded = {"int": int8_per_token, "float": e4m3_per_token}[inputs["type"]]
    return {name: rounded for name, module in model.named_modules() if hasattr(module, "quantization_scheme")}


# Place of the k-th of eight columns in AutoAWQ's words.
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def nibbles(words):
    """Codes of 4 bits [n, 8 k] of words [n, k], lowest bits first."""
    import torch

    shifts = torch.arange(0, 32, 4)
    return ((words.unsqueeze(-1) >> shifts) & 15).flatten(1)


def packed_weight(tensors, name, method):
    """Weights [out, in] of a layer in AutoAWQ's or GPTQ's layout."""
    import torch

    words, zeros, scales = (tensors[f"{name}.{part}"] for part in ("qweight", "qzeros", "scales"))
    if method == "awq":
        back = torch.tensor(AWQ_ORDER).argsort()
        in_order = lambda codes: codes.unflatten(1, (-1, 8))[:, :, back].flatten(1)
        codes, zeros = in_order(nibbles(words)), in_order(nibbles(zeros))  # [in, out], [groups, out]
        group = torch.arange(codes.shape[0]) // (codes.shape[0] // scales.shape[0])
    else:
        codes, zeros = nibbles(words.T.contiguous()).T, nibbles(zeros) + 1
        group = tensors[f"{name}.g_idx"].long()
    return ((codes - zeros[group]).float() * scales.float()[group]).T


def stored_tensors(folder):
    from safetensors.torch import load_file

    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors |= load_file(os.path.join(folder, name))
    return tensors


def unpacked_state(folder, method):
    """All tensors of a folder in AutoAWQ's or GPTQ's layout, by transformers' names."""
    tensors = stored_tensors(folder)
    state = {}
    for name, tensor in tensors.items():
        layer, part = name.rsplit(".", 1)
        if part == "qweight":
            state[f"{layer}.weight"] = packed_weight(tensors, layer, method)
        elif part not in ("qzeros", "scales", "g_idx"):
            state[name] = tensor.float()
    return state


# The numbers of E2M1's eight unsigned codes.
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def widened(weight, scale):
    """float32 [out, in] of codes and the scales of their rows, groups of columns, or squares."""
    numbers = weight.float()
    for axis in (0, 1):
        scale = scale.repeat_interleave(numbers.shape[axis] // scale.shape[axis], axis)
    return numbers * scale.float()


def compressed_weight(parts):
    """float32 [out, in] of a layer in compressed-tensors' or DeepSeek's layout."""
    import torch

    packed = parts.get("weight_packed")
    if packed is None:
        scale = parts.get("weight_scale", parts.get("weight_scale_inv"))
        return widened(parts["weight"], scale.float().reshape(*scale.shape, *[1] * (2 - scale.ndim)))
    if packed.dtype == torch.int32:
        return widened(nibbles(packed) - 8, parts["weight_scale"])
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).long()
    numbers = torch.tensor(E2M1 + [-number for number in E2M1])[codes]
    return widened(numbers, parts["weight_scale"].float() / parts["weight_global_scale"].float())


def experts_joined(state):
    """Joins the experts of a layer in one tensor, as transformers has them in memory."""
    import re
    import torch

    joined, experts = {}, {}
    for name, tensor in state.items():
        found = re.fullmatch(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight", name)
        if found is None:
            joined[name] = tensor
        else:
            experts.setdefault(found[1], {})[found[3], int(found[2])] = tensor
    for name, own in experts.items():
        stack = lambda part: torch.stack([own[part, i] for i in range(len(own) // 3)])
        joined[f"{name}.gate_up_proj"] = torch.cat([stack("gate"), stack("up")], 1)
        joined[f"{name}.down_proj"] = stack("down")
    return joined


def compressed_state(folder):
    """All tensors of a folder in compressed-tensors' or DeepSeek's layout, by transformers' names."""
    layers = {}
    for name, tensor in stored_tensors(folder).items():
        layer, _, part = name.rpartition(".")
        layers.setdefault(layer, {})[part] = tensor
    state = {}
    for layer, parts in layers.items():
        if "weight_scale" in parts or "weight_scale_inv" in parts:
            state[f"{layer}.weight"] = compressed_weight(parts)
        else:
            state |= {f"{layer}.{part}": tensor.float() for part, tensor in parts.items()}
    return experts_joined(state)


def plain_model(folder, state):
    """The folder's model with these weights and unrounded activations."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    missing, _ = model.load_state_dict(state, strict=False)
    if any(name != "lm_head.weight" for name in missing):
        raise ValueError(f"expected all of the model's tensors, got none of {missing}")
    model.tie_weights()
    return model


def open_model(path, activations):
    import torch
    from transformers import AutoModelForCausalLM

    if path.endswith(".gguf"):
        folder, file = os.path.split(os.path.abspath(path))
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
        return model, file_inputs(path) if activations == "rounded" else {}
    with open(os.path.join(path, "config.json")) as config:
        quantised = json.load(config).get("quantization_config")
    if quantised is None:
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32), {}
    method = quantised["quant_method"]
    if method in ("awq", "gptq"):
        return plain_model(path, unpacked_state(path, method)), {}
    # compressed-tensors widens NVFP4 to bfloat16, and does not join quantised experts.
    if quantised.get("format") == "nvfp4-pack-quantized" or any(".experts." in name for name in stored_tensors(path)):
        return plain_model(path, compressed_state(path)), {}
    if method == "fp8":
        from transformers import FineGrainedFP8Config as Config

        own = Config(dequantize=True, weight_block_size=tuple(quantised["weight_block_size"]))
    else:
        from transformers import CompressedTensorsConfig as Config

        own = Config(run_compressed=False)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, quantization_config=own)
    inputs = folder_inputs(model, quantised) if activations == "rounded" else {}
    return plain_model(path, model.state_dict()), inputs


def transformers_tops(path, texts, dtype, activations):
    import torch

    model, inputs = open_model(path, activations)
    modules = dict(model.to(getattr(torch, dtype)).eval().named_modules())
    for name, rounded in inputs.items():
        modules[name].register_forward_pre_hook(lambda _, args, rounded=rounded: (rounded(args[0]), *args[1:]))
    found = {"top": [], "logprob": []}
    with torch.inference_mode():
        for ids in texts:
            best = model(torch.tensor([ids])).logits[0].log_softmax(-1).max(-1)
            found["top"].append(best.indices.tolist())
            found["logprob"].append([round(value, 6) for value in best.values.tolist()])
    return found


def main():
    args = argparse.ArgumentParser()
    args.add_argument("engine", choices=["vllm", "transformers"])
    args.add_argument("texts")
    args.add_argument("models", nargs="+")
    args.add_argument("--dtype", default="float32")
    args.add_argument("--nvfp4-products", choices=["torch"])
    args.add_argument("--activations", choices=["f32", "rounded"], default="f32")
    a = args.parse_args()
    with open(a.texts) as file:
        texts = json.load(file)
    # Engines also print to stdout.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if a.nvfp4_products == "torch":
        multiply_nvfp4_with_torch()
    for path in a.models:
        try:
            own = vllm_tops(path, texts, a.dtype) if a.engine == "vllm" else transformers_tops(path, texts, a.dtype, a.activations)
            line = {"model": path, **own}
        except Exception as error:  # one model's failure is its result
            line = {"model": path, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(line), file=lines, flush=True)


if __name__ == "__main__":
    main()
