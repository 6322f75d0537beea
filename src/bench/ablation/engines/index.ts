/** The engines that `millrace bench ablate` knows. */
import type { AblatedEngine } from "./ablated-engine.js";
import { llamaServer } from "./llama-server.js";
import { millrace } from "./millrace.js";
import { sglang } from "./sglang.js";
import { vllm } from "./vllm.js";

const ENGINES = { millrace, vllm, sglang, "llama-server": llamaServer };

export type AblatedEngineName = keyof typeof ENGINES;

export const ABLATED_ENGINES: Readonly<Record<AblatedEngineName, AblatedEngine>> = ENGINES;
