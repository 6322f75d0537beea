/** All adapters by name. */

import type { EngineName } from "../upstream/engine.js";
import type { Adapter } from "./adapter.js";
import { llamaServer } from "./llama-server.js";
import { millrace } from "./millrace.js";
import { ollama } from "./ollama.js";
import { anthropic, azure, bedrock, google, openai } from "./openai.js";
import { sglang } from "./sglang.js";
import { tensorrtLlm } from "./tensorrt-llm.js";
import { tgi } from "./tgi.js";
import { vllm } from "./vllm.js";

export const ADAPTERS: Readonly<Record<EngineName, Adapter>> = {
  millrace,
  vllm,
  sglang,
  "tensorrt-llm": tensorrtLlm,
  tgi,
  "llama-server": llamaServer,
  ollama,
  openai,
  anthropic,
  google,
  azure,
  bedrock,
};
