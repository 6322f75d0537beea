/** Keys of a model's `semantic-cache`. */
import { z } from "zod";
import { byteSize, integer, secret, section, text, timeLimit } from "../../../core/config-values.js";

const MODES = ["shadow", "serve"] as const;
const STRICTNESS = ["strict", "balanced", "loose"] as const;

const httpUrl = () =>
  z.url({ protocol: /^https?$/ }).meta({ title: "an http URL", examples: ["http://127.0.0.1:9000/judge"] });

const judge = (environment: NodeJS.ProcessEnv) =>
  section({
    model: text().optional().describe("model of this fleet that compares the two answers"),
    url: httpUrl().optional().describe('server that gets both questions and answers, and says {"same": true} or false'),
    "api-key": secret(environment).optional().describe("bearer key for that server"),
    timeout: timeLimit().prefault("30s").describe("time allowed for a verdict"),
  });

export const semanticCache = (environment: NodeJS.ProcessEnv) =>
  section({
    embeddings: text().describe("model of this fleet that makes the vectors of questions, by /v1/embeddings"),
    mode: z
      .enum(MODES)
      .prefault("shadow")
      .describe("shadow: hits are judged and never served; serve: they are, once the judged ones have met max-error"),
    "max-error": z
      .number()
      .min(0.0001)
      .max(0.2)
      .prefault(0.01)
      .describe("share of wrong answers among hits that is accepted; met with 95 % confidence before a hit is served"),
    "min-judged": integer(300, 5000).prefault(300).describe("judged hits before the first one is served"),
    strictness: z
      .enum(STRICTNESS)
      .prefault("strict")
      .describe(
        "how far the wording of two questions may differ: strict (function words, inflection), balanced, loose",
      ),
    "min-similarity": z
      .number()
      .min(0)
      .max(1)
      .prefault(0.7)
      .describe("least cosine of two questions that are compared"),
    "audit-rate": z
      .number()
      .min(0.01)
      .max(1)
      .prefault(0.02)
      .describe("share of hits that are generated all the same, for ever, and judged"),
    ttl: timeLimit().prefault("24h").describe("time for which an answer is kept"),
    "max-entries": integer(1, 50_000).prefault(10_000).describe("kept questions; the oldest go first"),
    "max-bytes": byteSize().prefault("256MiB").describe("size of all kept answers; the oldest go first"),
    "max-answer-bytes": byteSize().prefault("256KiB").describe("largest answer that is kept"),
    "multi-turn": z
      .boolean()
      .prefault(false)
      .describe("whether a question behind earlier turns may hit, where all earlier turns are equal"),
    "embed-timeout": timeLimit()
      .prefault("250ms")
      .describe("time that a request waits for its vector; then it goes on"),
    judge: judge(environment)
      .optional()
      .describe("model that compares a kept answer with a new one (default: none; texts and vectors are compared)"),
  })
    .optional()
    .describe("gives a kept answer to a question with the same meaning; starts by judging without serving");
