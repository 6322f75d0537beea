/** The conformance suite against the real engines of this machine: our own, and llama-server where MILLRACE_LLAMA_SERVER names its binary. */
import { join } from "node:path";
import { describe, it } from "vitest";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import { describeConformance } from "../helpers/engine-conformance.js";
import { repositoryRoot } from "../helpers/fixtures.js";

const model = join(repositoryRoot(), "models/mill-base.gguf");
/** Every option that both have. */
const options = {
  model,
  maxNumSeqs: 2,
  maxModelLen: 1024,
  maxNumBatchedTokens: 256,
  threads: 1,
  apiKey: "sk-of-this-instance",
  kvCacheDtype: "int8",
  enablePrefixCaching: true,
};
const longAnswer = { ignore_eos: true };

describeConformance({
  kind: "real",
  spec: {
    engine: "millrace",
    program: ADAPTERS.millrace.program!,
    options: {
      ...options,
      kvCacheMemoryBytes: 2 ** 25,
      schedulingPolicy: "priority",
      speculativeConfig: { method: "ngram", num_speculative_tokens: 4 },
    },
  },
  longAnswer,
  longTokens: 900,
  capacity: { seats: 2, blockSize: 16 },
});

const llamaServer = process.env.MILLRACE_LLAMA_SERVER;
if (llamaServer === undefined) {
  describe("llama-server (real)", () => {
    it.skip("needs its binary: set MILLRACE_LLAMA_SERVER to the path of llama-server", () => {});
  });
} else {
  describeConformance({
    kind: "real",
    spec: {
      engine: "llama-server",
      program: [llamaServer],
      options: { ...options, speculativeConfig: { method: "draft_model", model, num_speculative_tokens: 4 } },
    },
    longAnswer,
    longTokens: 900,
    capacity: { seats: 2, kvTokens: 2048 },
  });
}
