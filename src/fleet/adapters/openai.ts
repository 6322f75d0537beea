/** Any server with an OpenAI API: attached, never started, and checked by its list of models alone. */
import { MillraceError } from "../../core/errors.js";
import type { Adapter } from "./adapter.js";
import { NO_METRICS } from "./prometheus.js";

export const openai: Adapter = {
  name: "openai",
  program: undefined,
  launch() {
    throw new MillraceError("invalid_option", "expected a server to attach for engine openai, got instances to start", {
      hint: "Give its URL, or name the engine to start.",
    });
  },
  healthPath: "/v1/models",
  metricsPath: undefined,
  cacheScope: [],
  parseMetrics: () => NO_METRICS,
  capacity: async () => ({ seats: undefined, kvTokens: undefined, blockSize: undefined }),
};
