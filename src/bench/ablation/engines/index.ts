/** The engines that `millrace bench ablate` knows. */
import type { AblatedEngine } from "./ablated-engine.js";
import { llamaServer } from "./llama-server.js";
import { millrace } from "./millrace.js";
import { sglang } from "./sglang.js";
import { vllm } from "./vllm.js";

export const ABLATED_ENGINES = { millrace, vllm, sglang, "llama-server": llamaServer } satisfies Record<
  string,
  AblatedEngine
>;

export type AblatedEngineName = keyof typeof ABLATED_ENGINES;
