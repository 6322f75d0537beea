/**
 * Servers that the fleet attaches to and never starts: any server with an OpenAI API, checked only by its list of
 * models, and the paid APIs, which are not checked.
 */
import { MillraceError } from "../../core/errors.js";
import type { EngineName } from "../upstream/engine.js";
import type { Adapter } from "./adapter.js";
import { NO_METRICS } from "./prometheus.js";

function attachedOnly(name: EngineName): Adapter {
  return {
    name,
    program: undefined,
    launch() {
      throw new MillraceError(
        "invalid_option",
        `expected a server to attach for engine ${name}, got instances to start`,
        { hint: "Give its URL, or name the engine to start." },
      );
    },
    healthPath: "/v1/models",
    metricsPath: undefined,
    cacheScope: [],
    parseMetrics: () => NO_METRICS,
    capacity: async () => ({ seats: undefined, kvTokens: undefined, blockSize: undefined }),
  };
}

export const openai = attachedOnly("openai");
export const anthropic = attachedOnly("anthropic");
export const google = attachedOnly("google");
export const azure = attachedOnly("azure");
export const bedrock = attachedOnly("bedrock");
