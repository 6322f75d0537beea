/**
 * How the real engines of this machine are started. A variable names each of the others; a script under scripts/engines
 * sets it up.
 */
import type { ModelSpec } from "../../src/fleet/upstream/model-spec.js";

type RealEngine = Pick<ModelSpec, "engine" | "program" | "args" | "env">;

/** vLLM's CPU build. Compiling takes minutes and changes no behaviour. */
export const realVllm = (program: string): RealEngine => ({
  engine: "vllm",
  program: [program, "serve"],
  args: ["--enforce-eager"],
  env: { VLLM_CPU_KVCACHE_SPACE: "1" },
});

/** SGLang's plain PyTorch backends: the others need AMX or a GPU. By default it takes most of the machine's memory. */
export const realSglang = (python: string): RealEngine => ({
  engine: "sglang",
  program: [python, "-m", "sglang.launch_server"],
  args: [
    "--device",
    "cpu",
    "--attention-backend",
    "torch_native",
    "--sampling-backend",
    "pytorch",
    "--max-total-tokens",
    "8192",
  ],
  env: { SGLANG_USE_CPU_ENGINE: "1", HF_HUB_OFFLINE: "1" },
});
