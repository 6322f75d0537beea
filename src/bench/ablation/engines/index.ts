/** The engines that `millrace bench ablate` knows. */
import type { AblatedEngine } from "./ablated-engine.js";
import { llamaServer } from "./llama-server.js";
import { millrace } from "./millrace.js";
import { sglang } from "./sglang.js";
import { vllm } from "./vllm.js";

export type AblatedEngineName = "millrace" | "vllm" | "sglang" | "llama-server";

export const ABLATED_ENGINES: Readonly<Record<AblatedEngineName, AblatedEngine>> = {
  millrace,
  vllm,
  sglang,
  "llama-server": llamaServer,
};
