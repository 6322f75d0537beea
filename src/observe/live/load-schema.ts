/** The dashboard's figures in the API's form, for its description. A figure is absent if the metrics lack it. */
import { z } from "zod";
import { BINDING_NAMES } from "./binding.js";
import { eventSchema } from "./event-log.js";
import { WINDOW_NAMES } from "./history.js";

const figure = z.number().optional();
const quantiles = z.object({ p50: figure, p95: figure, p99: figure });

const targets = z
  .object({ ttft_ms: figure, tpot_ms: figure })
  .describe("what the operator wants of 95 requests in 100");

export const loadSchema = z.object({
  at_ms: z.number().describe("Unix milliseconds"),
  tokens_in_per_s: figure,
  tokens_out_per_s: figure,
  requests_per_s: figure,
  refused_per_s: figure,
  preemptions_per_s: figure,
  evicted_per_s: figure.describe("tokens whose keys and values were dropped"),
  prefix_saved_per_s: figure.describe("prompt tokens that the prefix cache gave"),
  drafted_per_s: figure.describe("tokens of answers that drafts gave, among tokens_out_per_s"),
  saved_per_s: figure.describe("tokens of kept answers that were given again"),
  running: figure,
  waiting: figure,
  seats: figure.describe("requests that are computed at once; of live figures only"),
  memory_bytes: figure.describe("resident, of all processes"),
  kv_use: figure.describe("a share of 1, as are prefix_hits, acceptance, prompt_share and host_share"),
  prefix_hits: figure,
  acceptance: figure.describe("of drafted tokens"),
  prompt_share: figure.describe("of steps' time, for prompts; the rest is for answers"),
  host_share: figure.describe("of steps' time, outside the kernels"),
  ttft: quantiles.describe("milliseconds, as are tpot and queue"),
  tpot: quantiles,
  queue: quantiles,
  binding: z
    .object({
      name: z.enum(BINDING_NAMES),
      evidence: z.string().describe("the metric that says so, in words"),
      advice: z.string().describe("the change that would help"),
    })
    .optional()
    .describe("of a live figure that is not a tenant's: what binds now"),
  targets: targets.optional().describe("of a live figure"),
  events: z.array(eventSchema).optional().describe("of a live figure: what happened since the one before"),
});

export const historyQuery = z.object({ window: z.enum(WINDOW_NAMES).default("hour") });

export const partsAnswer = z.object({
  series: z
    .array(
      z.object({
        kind: z.enum(["model", "instance"]),
        name: z.string(),
        is_current: z.boolean().describe("whether it is there now"),
      }),
    )
    .describe("parts of a fleet; a server of one model has none"),
});

export const historyAnswer = z.object({
  window: z.enum(WINDOW_NAMES),
  every_ms: z.number(),
  targets,
  loads: z.array(loadSchema.omit({ seats: true, binding: true, targets: true, events: true })),
  events: z.array(eventSchema).describe("the newest 100 of the window, the oldest first"),
});
