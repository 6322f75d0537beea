/** Ollama: `ollama serve`, configured by environment variables. It loads the model at the first request. */
import { MillraceError } from "../../core/errors.js";
import type { UpstreamTarget } from "../upstream/upstream.js";
import type { Adapter } from "./adapter.js";
import { askForText } from "./engine-http.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom } from "./flags.js";
import { NO_METRICS } from "./prometheus.js";

const FLAGS: FlagTable = {
  model: elsewhere,
  servedModelName: elsewhere,
  maxModelLen: elsewhere,
  maxNumSeqs: elsewhere,
  kvCacheDtype: elsewhere,
  enableSleepMode: elsewhere,
};

/**
 * Sets how long the model stays loaded: 0 unloads it now, a negative number keeps it for good. A request without a
 * prompt sets only that.
 */
async function keepAlive(target: UpstreamTarget, seconds: number, signal: AbortSignal): Promise<void> {
  if (target.modelName === undefined) {
    throw new MillraceError("instance_failed", `expected a model name for the ollama at ${target.url}, got none`, {
      hint: "Name the model as `ollama list` does.",
    });
  }
  await askForText(target, "/api/generate", signal, { model: target.modelName, keep_alive: seconds });
}

export const ollama: Adapter = {
  name: "ollama",
  program: ["ollama", "serve"],
  launch(options, program, { host, port }) {
    const { args, notices } = flagsFrom("ollama", options, FLAGS);
    return {
      command: [...program, ...args],
      env: envFrom({
        OLLAMA_HOST: `${host}:${port}`,
        OLLAMA_CONTEXT_LENGTH: options.maxModelLen,
        OLLAMA_NUM_PARALLEL: options.maxNumSeqs,
        OLLAMA_KV_CACHE_TYPE: options.kvCacheDtype,
        // Ollama ignores the cache type unless flash attention is on.
        OLLAMA_FLASH_ATTENTION: options.kvCacheDtype === undefined ? undefined : 1,
        OLLAMA_KEEP_ALIVE: -1,
      }),
      modelName: options.model,
      notices,
    };
  },
  healthPath: "/",
  metricsPath: undefined,
  cacheScope: [],
  parseMetrics: () => NO_METRICS,
  capacity: async () => ({ seats: undefined, kvTokens: undefined, blockSize: undefined }),
  sleep: (target, signal) => keepAlive(target, 0, signal),
  wake: (target, signal) => keepAlive(target, -1, signal),
};
