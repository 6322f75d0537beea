/** The schema of millrace.yaml. It checks the file, documents its keys and is published as JSON Schema. */
import { z } from "zod";
import {
  byteSize,
  cpuList,
  duration,
  integer,
  parsed,
  secret,
  section,
  text,
  timeLimit,
} from "../../core/config-values.js";
import { LOG_FORMATS, LOG_LEVELS } from "../../core/log.js";
import { parseLatencyTargets } from "../../core/slo.js";
import { ROUTING_POLICIES } from "../routing/policies.js";
import { ENGINE_NAMES } from "../upstream/engine.js";
import { batches } from "./sections/batches.js";
import { budgetKeys, keyLimitKeys, modelLimitKeys, withKeyScopes } from "./sections/budgets.js";
import { cache, idempotency, modelCache } from "./sections/cache.js";
import { conversations } from "./sections/conversations.js";
import { hooks } from "./sections/hooks.js";
import { ledgerKeys } from "./sections/ledger.js";
import { lengthKeys } from "./sections/lengths.js";
import { operatorKeys } from "./sections/operators.js";
import { modelPriceKeys, priceKeys } from "./sections/prices.js";
import { attachment, provider } from "./sections/provider.js";
import { quality } from "./sections/quality.js";
import { cascades, routes } from "./sections/routes.js";
import { scheduleShape } from "./sections/schedule.js";
import { semanticCache } from "./sections/semantic.js";
import { signInKeys } from "./sections/sign-in.js";
import { tenantKeys } from "./sections/tenants.js";

export const MAX_INSTANCES = 256;
const MAX_TOKENS = 2 ** 30;

const fraction = (): z.ZodNumber => z.number().min(0).max(1);

/** Engine options under vLLM's names. Each adapter reports the options that its engine lacks. */
const engineOptions = () =>
  section({
    "max-model-len": integer(1, MAX_TOKENS)
      .optional()
      .describe("longest sequence in tokens, prompt and answer together"),
    "max-num-seqs": integer(1, 65_536).optional().describe("largest number of sequences in a batch"),
    "max-num-batched-tokens": integer(1, MAX_TOKENS).optional().describe("largest number of tokens in a step"),
    "kv-cache-dtype": text().optional().describe("data type of keys and values, under the engine's own name"),
    "kv-cache-memory-bytes": byteSize().optional().describe("KV memory of each instance"),
    quantization: text().optional().describe("quantisation of the weights, under the engine's own name"),
    "tensor-parallel-size": integer(1, 1024).optional().describe("GPUs that share one instance"),
    "data-parallel-size": integer(1, 1024)
      .optional()
      .describe("groups of so many GPUs in one instance, each with requests of its own; the limits are of one group"),
    "enable-expert-parallel": z
      .boolean()
      .optional()
      .describe("whether each expert of a mixture lies whole on one of the instance's GPUs, for all groups together"),
    "gpu-memory-utilization": fraction().optional().describe("share of each GPU's memory that an instance may take"),
    "enable-prefix-caching": z.boolean().optional().describe("whether to cache the KV of common prompt prefixes"),
    "speculative-config": z
      .record(z.string(), z.unknown())
      .optional()
      .describe("speculative decoding, as the engine's own JSON"),
    "scheduling-policy": text().optional().describe("order of waiting requests, under the engine's own name"),
    threads: integer(1, 1024).optional().describe("CPU threads of each instance"),
    "build-engine": section({
      convert: z
        .array(text())
        .min(1)
        .optional()
        .describe("program and arguments that make the engine's checkpoint from the model (default: the model is one)"),
      program: z.array(text()).min(1).optional().describe("the builder, instead of the engine's usual one"),
      args: z.array(z.string()).default([]).describe("further arguments of the builder"),
      "pipeline-parallel-size": integer(1, 1024).optional().describe("GPUs that share the layers of one instance"),
    })
      .optional()
      .describe(
        "compiles the model for the GPU before the first start, where the engine can (tensorrt-llm); kept and shared",
      ),
  });

const range = () =>
  z.strictObject({
    min: integer(0, MAX_INSTANCES).describe("least number of instances; 0: unloaded until the first request"),
    max: integer(1, MAX_INSTANCES).describe("largest number of instances"),
  });

/** Keys of `autoscale`, of the fleet and of a model. A model's missing keys take the fleet's values. */
const autoscaleShape = {
  "up-at": fraction()
    .optional()
    .describe("waiting requests, as a share of the seats, above which an instance is added (0.8)"),
  "up-after": duration().optional().describe("time for which the queue must stay above it (30s)"),
  "down-after": duration()
    .optional()
    .describe("time for which one instance fewer must have been enough before one is removed (10m)"),
  ...scheduleShape(z.union([integer(0, MAX_INSTANCES), range()]).meta({ title: "a number, or a range" })),
};

const model = (environment: NodeJS.ProcessEnv) =>
  section({
    name: text("a name without spaces").regex(/^\S+$/).describe("name that clients send as `model`"),
    aliases: z.array(text()).default([]).describe("other names that clients may send"),
    engine: z.enum(ENGINE_NAMES).default("millrace").describe("engine that runs the model"),
    program: z
      .array(text())
      .min(1)
      .optional()
      .describe("program and its first arguments, instead of the engine's usual ones"),
    model: text("a path, or a name the engine can fetch")
      .optional()
      .describe("file, folder or name that the engine loads; leave out for attached servers"),
    options: engineOptions().prefault({}).describe("options of the engine"),
    args: z.array(z.string()).default([]).describe("further arguments, passed to the engine unchanged"),
    env: z
      .record(z.string(), secret(environment))
      .default({})
      .describe("environment variables of the engine's processes"),
    instances: z
      .union([integer(0, MAX_INSTANCES), z.literal("auto"), range()])
      .optional()
      .meta({ title: "a number, auto, or a range such as {min: 1, max: 4}" })
      .describe("number of instances; auto: the number that measures fastest on this machine"),
    cores: cpuList().optional().describe("CPUs that the model's instances share"),
    "cores-per-instance": integer(1, 1024)
      .optional()
      .describe("number of CPUs from `cores`, else of physical cores, that each instance is pinned to"),
    gpus: z
      .array(z.union([integer(0, 1023), text()]).meta({ title: "a GPU's number or UUID" }))
      .min(1)
      .optional()
      .describe("GPUs that the model's instances share"),
    "gpus-per-instance": integer(1, 1024)
      .optional()
      .describe("number of GPUs that each instance sees (default: tensor-parallel-size times data-parallel-size)"),
    attach: z
      .array(attachment(environment))
      .default([])
      .describe("running servers to attach to, which are never started or stopped"),
    provider: provider().prefault({}).describe("how a paid API is asked"),
    load: z
      .enum(["always", "on-demand"])
      .optional()
      .describe(
        "when the model is loaded: always at the start, or on-demand at the first request, as long as memory allows",
      ),
    memory: byteSize().optional().describe("memory of each instance (default: measured)"),
    "scale-down": z
      .enum(["stop", "sleep"])
      .default("stop")
      .describe("how an instance that is not needed rests: its process stops, or sleeps where the engine can"),
    "start-timeout": timeLimit().optional().describe("time allowed for a start"),
    autoscale: section(autoscaleShape).prefault({}).describe("values that override the fleet's `autoscale`"),
    ...modelLimitKeys,
    ...lengthKeys,
    cache: modelCache(),
    "semantic-cache": semanticCache(environment),
    ...modelPriceKeys,
  });

const routing = () =>
  section({
    policy: z
      .enum(ROUTING_POLICIES)
      .prefault("prefix")
      .describe(
        "how an instance is chosen: prefix (longest cached prefix, minus a load penalty), least-load, round-robin, or session (by session-header)",
      ),
    "load-weight": z.number().min(0).max(100).prefault(1).describe("weight of the load against a cached prefix"),
    "seat-factor": z
      .number()
      .min(0.1)
      .max(100)
      .prefault(1)
      .describe("requests sent to an instance at once, as a multiple of its seats; further requests wait in the fleet"),
    "session-header": text("a header's name")
      .regex(/^[a-z0-9-]+$/)
      .prefault("x-session-id")
      .describe("header that names the session, for the policy `session`"),
    "hedge-after": z
      .union([z.literal("auto"), duration()])
      .optional()
      .meta({ title: "auto, or a duration" })
      .describe(
        "time after which a request whose answer has not begun also goes to a second instance; auto: the 95th percentile for prompts of its size (default: never); at most 5 % of requests, and none above 70 % of the seats",
      ),
  });

const timeouts = () =>
  section({
    connect: duration().prefault("5s").describe("time allowed to connect to an instance; fixed at the start"),
    body: timeLimit().prefault("1m").describe("time allowed to receive the full request body"),
    wait: timeLimit()
      .prefault("2m")
      .describe("time a request may wait for a seat, or for a model that is being loaded"),
    "first-token": timeLimit()
      .prefault("10m")
      .describe(
        "time allowed from sending a request to the first byte of its answer, and in which a stream sends nothing but comments (at least `idle`)",
      ),
    idle: timeLimit().prefault("2m").describe("time allowed between two bytes of an answer"),
    "stalled-client": duration()
      .prefault("1m")
      .describe("time after which a stalled or idle client is disconnected; fixed at the start"),
    drain: duration()
      .prefault("5m")
      .describe("time that running requests get to finish when their instance or the fleet stops"),
  });

const limits = () =>
  section({
    "max-body-bytes": byteSize().prefault("32MiB").describe("largest request body"),
    "max-waiting-requests": integer(0, 1_000_000)
      .prefault(1024)
      .describe("waiting requests per model before new ones get 429"),
    "max-attempts": integer(1, 100)
      .prefault(3)
      .describe(
        "attempts to send a request; it fails earlier if two instances break the connection before they answer",
      ),
    "default-output-tokens": integer(1, MAX_TOKENS)
      .prefault(256)
      .describe("output tokens that a request without max_tokens counts as"),
  });

/** Written as in `--slo` of bench and plan. */
const latencyTargets = () =>
  parsed(
    "targets of ttft and tpot above 0, or chat, rag or code",
    ["ttft=200ms,tpot=33ms", "chat"],
    /\S/,
    (written) => {
      try {
        return parseLatencyTargets(written);
      } catch {
        return undefined;
      }
    },
  )
    .optional()
    .describe("targets of 95 requests in 100, which the dashboard shows (default: none)");

const telemetry = () =>
  section({
    "otlp-endpoint": z
      .url({ protocol: /^https?$/ })
      .optional()
      .meta({ title: "an http URL" })
      .describe("OpenTelemetry collector that gets spans and metrics (default: OTEL_EXPORTER_OTLP_ENDPOINT)"),
    "service-name": text().prefault("millrace").describe("name of the fleet in traces and metrics"),
  });

const apiKey = (environment: NodeJS.ProcessEnv) =>
  section({
    tenant: text("a name without spaces")
      .regex(/^\S+$/)
      .describe(
        "name of the key's owner, which stands for the key in traces; fairness treats all keys of a tenant as one",
      ),
    key: secret(environment).describe("the key, or env:NAME"),
    ...keyLimitKeys,
  });

/** @param environment variables for `env:NAME` */
export const configSchema = (environment: NodeJS.ProcessEnv) =>
  section({
    host: text("an address of this machine").prefault("127.0.0.1").describe("address to listen on; fixed at the start"),
    port: integer(0, 65_535).prefault(8000).describe("port to listen on; 0: any free port; fixed at the start"),
    "ssl-certfile": text("a file")
      .optional()
      .describe("certificate of the gateway, as PEM with its chain: it then speaks HTTPS; read again when it changes"),
    "ssl-keyfile": text("a file").optional().describe("private key of the certificate, as PEM"),
    "log-level": z.enum(LOG_LEVELS).prefault("info").describe("least severe level to log; fixed at the start"),
    "log-format": z
      .enum(LOG_FORMATS)
      .prefault("auto")
      .describe("text (readable lines) or json; auto: text on a terminal; fixed at the start"),
    "api-keys": z
      .array(apiKey(environment))
      .default([])
      .describe("keys that give access to the API; without any, and without managed-keys and oidc, it is open to all"),
    ...tenantKeys,
    "isolate-api-keys": z
      .boolean()
      .optional()
      .describe(
        "whether each tenant has its own cached prefixes (default: with two tenants or more); paths where the engine cannot separate them are refused",
      ),
    "allowed-origins": z
      .array(text("an origin such as https://app.example, or *"))
      .min(1)
      .optional()
      .describe(
        "origins whose web pages may call the API, * for all (default: all if there are keys, else only the server's own)",
      ),
    ...operatorKeys(environment),
    ...signInKeys(environment),
    "data-folder": text("a folder")
      .optional()
      .describe(
        "folder of the gateway's database and files (default: $XDG_STATE_HOME/millrace/gateway-PORT); fixed at the start",
      ),
    slo: latencyTargets(),
    reports: text("a folder")
      .optional()
      .describe(
        "folder of what bench, tune, eval and plan wrote, which the app lists and compares (default: none); fixed at the start",
      ),
    "memory-budget": byteSize()
      .optional()
      .describe("memory for all models together; least recently used on-demand models are unloaded first"),
    "serve-library": z
      .boolean()
      .default(false)
      .describe(
        "whether every model that was pulled to this machine is served too, and loaded when it is first asked for; without memory-budget, in at most four fifths of the memory that is free at the start",
      ),
    routing: routing().prefault({}).describe("how an instance is chosen for each request"),
    regions: z
      .array(text())
      .default([])
      .describe(
        "other regions, nearest first: a request goes to a farther region only while no nearer instance has a free seat",
      ),
    timeouts: timeouts().prefault({}).describe("time limits"),
    limits: limits().prefault({}).describe("limits on requests"),
    hooks: hooks(environment)
      .prefault({})
      .describe("hooks that read requests and answers on their way; fixed at the start"),
    batches: batches().prefault({}).describe("files and batches of clients; their folder is in the data-folder"),
    conversations: conversations(),
    telemetry: telemetry().prefault({}).describe("export to OpenTelemetry; fixed at the start"),
    ...budgetKeys(environment),
    cache: cache(environment),
    idempotency: idempotency().prefault({}).describe("answers that a retry under the same Idempotency-Key gets again"),
    autoscale: section(autoscaleShape).prefault({}).describe("when instances are added and removed"),
    routes: routes().describe("virtual models: names that rules resolve to a model for each request"),
    cascades: cascades().describe(
      "virtual models of two: a small one answers, and a judge keeps the answer or asks the large one",
    ),
    ...ledgerKeys(environment),
    quality: quality(),
    ...priceKeys,
    models: z.array(model(environment)).min(1).describe("models to serve"),
  }).transform((config) => withKeyScopes(config));

export type FleetConfig = z.output<ReturnType<typeof configSchema>>;
export type ModelEntry = FleetConfig["models"][number];
export type AutoscaleConfig = FleetConfig["autoscale"];
