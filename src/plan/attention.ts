/** The attention kernels that an engine chooses on a GPU by default, and why. */
import type { PlannedEngine } from "./data/engines.js";
import type { Evaluation } from "./evaluate.js";

interface Attention {
  readonly choice: string;
  readonly because: string;
}

type Architecture = Extract<Evaluation["instance"]["machine"], { kind: "gpu" }>["device"]["arch"];

const FA3 = "FlashAttention 3 overlaps copies and products on Hopper, and reads FP8 keys";

/** docs.vllm.ai/en/latest/design/attention_backends, read 2026-11. */
function vllm(arch: Architecture, isNarrow: boolean): Attention {
  if (arch === "hopper") return { choice: "FlashAttention 3 (FLASH_ATTN)", because: FA3 };
  if (arch === "blackwell")
    return { choice: "FlashInfer (FLASHINFER)", because: "it brings TensorRT-LLM's kernels, the fastest on Blackwell" };
  if (arch === "cdna3")
    return {
      choice: "Triton (ROCM_ATTN)",
      because: "FlashInfer and FlashAttention 3 are for NVIDIA GPUs; AITER's are on request",
    };
  return isNarrow
    ? { choice: "FlashInfer (FLASHINFER)", because: "FlashAttention 2 does not read FP8 keys" }
    : { choice: "FlashAttention 2 (FLASH_ATTN)", because: "FlashAttention 3 needs Hopper" };
}

/** docs.sglang.io/advanced_features/attention_backend, read 2026-11. */
function sglang(arch: Architecture): Attention {
  if (arch === "hopper") return { choice: "FlashAttention 3 (fa3)", because: FA3 };
  if (arch === "blackwell")
    return {
      choice: "TensorRT-LLM's kernels (trtllm_mha)",
      because: "SGLang's default on Blackwell with chains of drafts",
    };
  if (arch === "cdna3") return { choice: "AITER (aiter)", because: "AMD's own kernels; FlashInfer is for NVIDIA GPUs" };
  return { choice: "FlashInfer (flashinfer)", because: "FlashAttention 3 needs Hopper" };
}

const OWN: Readonly<Record<Exclude<PlannedEngine, "vllm" | "sglang">, Attention>> = {
  "tensorrt-llm": { choice: "TensorRT-LLM's own (TRTLLM)", because: "compiled for each generation of NVIDIA GPUs" },
  tgi: { choice: "FlashInfer", because: "TGI's default for prefix caching; its older kernels elsewhere" },
  "llama-server": { choice: "ggml's own", because: "they read the file's types and narrow keys" },
  ollama: { choice: "ggml's own", because: "llama.cpp computes" },
  millrace: { choice: "its own", because: "kernels for the CPU's vector instructions" },
};

export function attentionOf({ engine, instance, kv }: Evaluation): Attention {
  const { machine, model } = instance;
  if (engine !== "vllm" && engine !== "sglang") return OWN[engine];
  if (machine.kind === "cpu") return { choice: "the engine's own", because: "there is one for CPUs" };
  const { arch } = machine.device;
  if (model.layers.some(({ mixer }) => mixer.kind === "latent")) {
    const choice =
      arch === "hopper"
        ? "FlashMLA or FlashAttention 3"
        : arch === "blackwell"
          ? "TensorRT-LLM's MLA kernels"
          : "Triton";
    return { choice, because: "keys of a latent width have kernels of their own" };
  }
  return engine === "vllm" ? vllm(arch, kv.id !== "16") : sglang(arch);
}
