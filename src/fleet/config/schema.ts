/** What millrace.yaml may say: one schema, which checks the file, documents its keys and is published as JSON Schema. */
import { z } from "zod";
import { LOG_FORMATS, LOG_LEVELS } from "../../core/log.js";
import { ENGINE_NAMES } from "../adapters/adapter.js";
import { ROUTING_POLICIES } from "../routing/policies.js";
import { baseUrl, byteSize, cpuList, duration, integer, secret, section, text, timeLimit } from "./values.js";

export const MAX_INSTANCES = 256;
const MAX_TOKENS = 2 ** 30;

const fraction = (): z.ZodNumber => z.number().min(0).max(1);

/** The engine's own options, under vLLM's names; each adapter says which it cannot give. */
const engineOptions = () =>
  section({
    "max-model-len": integer(1, MAX_TOKENS).optional().describe("longest sequence, prompt and answer together"),
    "max-num-seqs": integer(1, 65_536).optional().describe("sequences in a batch"),
    "max-num-batched-tokens": integer(1, MAX_TOKENS).optional().describe("tokens in a step"),
    "kv-cache-dtype": text().optional().describe("how keys and values are stored, in the engine's own words"),
    "kv-cache-memory-bytes": byteSize().optional().describe("the KV memory of an instance"),
    quantization: text().optional().describe("how the weights are to be quantised, in the engine's own words"),
    "tensor-parallel-size": integer(1, 1024).optional().describe("GPUs that share one instance"),
    "gpu-memory-utilization": fraction().optional().describe("share of a GPU's memory that an instance takes"),
    "enable-prefix-caching": z.boolean().optional().describe("whether equal prefixes are computed once"),
    "speculative-config": z.record(z.string(), z.unknown()).optional().describe("what guesses tokens ahead"),
    "scheduling-policy": text().optional().describe("who goes first, in the engine's own words"),
    threads: integer(1, 1024).optional().describe("CPU threads of an instance"),
  });

/** Of the whole fleet, or of one model: what a model leaves out holds as the fleet has it. */
const autoscaleShape = {
  "up-at": fraction()
    .optional()
    .describe("requests waiting, as a share of the seats, above which an instance is added (0.8)"),
  "up-after": duration().optional().describe("for how long that has to hold (30s)"),
  "down-after": duration()
    .optional()
    .describe("for how long one instance fewer must have been enough before one goes (10m)"),
};

const attachment = (environment: NodeJS.ProcessEnv) =>
  section({
    url: baseUrl().describe("where the server is"),
    "api-key": secret(environment).optional().describe("the key it asks for"),
    "model-name": text().optional().describe("what it calls the model, if not as clients do"),
  });

const range = () =>
  z.strictObject({
    min: integer(0, MAX_INSTANCES).describe("at least so many; 0: none while nobody asks"),
    max: integer(1, MAX_INSTANCES).describe("at most so many"),
  });

const model = (environment: NodeJS.ProcessEnv) =>
  section({
    name: text("a name without spaces").regex(/^\S+$/).describe("what clients send as `model`"),
    aliases: z.array(text()).default([]).describe("other names it answers to"),
    engine: z.enum(ENGINE_NAMES).default("millrace").describe("what runs it"),
    program: z
      .array(text())
      .min(1)
      .optional()
      .describe("program and first arguments, where not the engine's usual ones"),
    model: text("a path, or a name the engine can fetch")
      .optional()
      .describe("what is loaded; not for servers that are only attached"),
    options: engineOptions().prefault({}).describe("the engine's options"),
    args: z.array(z.string()).default([]).describe("arguments passed to the engine as they are"),
    env: z.record(z.string(), secret(environment)).default({}).describe("environment variables of its processes"),
    instances: z
      .union([integer(0, MAX_INSTANCES), z.literal("auto"), range()])
      .optional()
      .meta({ title: "a number, auto, or a range such as {min: 1, max: 4}" })
      .describe("how many run; auto: as many as were measured to be fastest"),
    cores: cpuList().optional().describe("CPUs of all its instances together"),
    "cores-per-instance": integer(1, 1024)
      .optional()
      .describe("how many of cores, else physical cores, each instance is pinned to"),
    gpus: z
      .array(z.union([integer(0, 1023), text()]).meta({ title: "a GPU's number or UUID" }))
      .min(1)
      .optional()
      .describe("GPUs of all its instances together"),
    "gpus-per-instance": integer(1, 1024)
      .optional()
      .describe("GPUs that each instance sees (tensor-parallel-size, else 1)"),
    attach: z.array(attachment(environment)).default([]).describe("servers that run already"),
    load: z
      .enum(["always", "on-demand"])
      .optional()
      .describe("on-demand: when first asked for, as long as memory allows"),
    memory: byteSize().optional().describe("memory of an instance, where it is not to be measured"),
    "scale-down": z.enum(["stop", "sleep"]).default("stop").describe("what becomes of an instance that is not needed"),
    "start-timeout": timeLimit().optional().describe("how long a start may take"),
    autoscale: section(autoscaleShape).prefault({}).describe("where it differs from the fleet's"),
  });

const routing = () =>
  section({
    policy: z
      .enum(ROUTING_POLICIES)
      .prefault("prefix")
      .describe(
        "how an instance is chosen: prefix (where most of the prompt is known, less the load), least-load, round-robin, or session (by session-header)",
      ),
    "load-weight": z.number().min(0).max(100).prefault(1).describe("what load counts against a matching prefix"),
    "seat-factor": z
      .number()
      .min(0.1)
      .max(100)
      .prefault(1)
      .describe("requests an instance gets at once, in multiples of its seats; the rest waits in the fleet"),
    "session-header": text("a header's name")
      .regex(/^[a-z0-9-]+$/)
      .prefault("x-session-id")
      .describe("names the session, for the policy of this name"),
    "hedge-after": duration()
      .optional()
      .describe("an answer that has not begun by then is asked for from a second instance too; none: never"),
  });

const timeouts = () =>
  section({
    connect: duration().prefault("5s").describe("until an instance takes the connection; fixed at the start"),
    body: timeLimit().prefault("1m").describe("until a request is there as a whole"),
    wait: timeLimit()
      .prefault("2m")
      .describe("how long a request waits for a seat, or for a model that is being loaded"),
    "first-token": timeLimit().prefault("10m").describe("until the first byte of an answer"),
    idle: timeLimit().prefault("2m").describe("between two bytes of an answer"),
    "stalled-client": duration()
      .prefault("1m")
      .describe("a client that takes nothing of its answer; fixed at the start"),
    drain: duration()
      .prefault("5m")
      .describe("how long requests may go on when their instance, or the fleet, is to end"),
  });

const limits = () =>
  section({
    "max-body-bytes": byteSize().prefault("32MiB").describe("largest request"),
    "max-waiting-requests": integer(0, 1_000_000).prefault(1024).describe("requests of a model that wait before 429"),
    "max-attempts": integer(1, 100)
      .prefault(3)
      .describe(
        "instances a request is sent to, one after the other; two whose connection breaks before the answer at most",
      ),
    "default-output-tokens": integer(1, MAX_TOKENS)
      .prefault(256)
      .describe("what a request without max_tokens counts as"),
  });

const telemetry = () =>
  section({
    "otlp-endpoint": z
      .url({ protocol: /^https?$/ })
      .optional()
      .meta({ title: "an http URL" })
      .describe("where spans and metrics are sent; also OTEL_EXPORTER_OTLP_ENDPOINT"),
    "service-name": text().prefault("millrace").describe("what the fleet is called there"),
  });

const apiKey = (environment: NodeJS.ProcessEnv) =>
  section({
    tenant: text("a name without spaces")
      .regex(/^\S+$/)
      .describe("who uses it: what fairness between keys goes by; it stands for the key, which is shown nowhere"),
    key: secret(environment).describe("the key, or env:NAME"),
  });

/** @param environment what `env:NAME` is looked up in */
export const configSchema = (environment: NodeJS.ProcessEnv) =>
  section({
    host: text("an address of this machine").prefault("127.0.0.1").describe("address to listen on"),
    port: integer(0, 65_535).prefault(8000).describe("port to listen on; 0: any free one"),
    "log-level": z.enum(LOG_LEVELS).prefault("info").describe("what is logged"),
    "log-format": z.enum(LOG_FORMATS).prefault("auto").describe("lines for people, or JSON; auto: text on a terminal"),
    "api-keys": z.array(apiKey(environment)).default([]).describe("keys that open the API; none: open to all"),
    "isolate-api-keys": z
      .boolean()
      .optional()
      .describe(
        "whether each tenant has cached prefixes of its own (as soon as there are two); paths where the engine cannot do that are refused",
      ),
    "allowed-origins": z
      .array(text("an origin such as https://app.example, or *"))
      .min(1)
      .optional()
      .describe(
        "origins whose pages may call; * stands for all (with keys all, without keys none but the server's own)",
      ),
    "admin-key": secret(environment).optional().describe("the key of /admin; none: there is no /admin"),
    "memory-budget": byteSize()
      .optional()
      .describe("memory of all models together; least recently used ones on demand go first"),
    routing: routing().prefault({}).describe("which instance gets a request"),
    timeouts: timeouts().prefault({}).describe("how long what may take"),
    limits: limits().prefault({}).describe("what is refused"),
    telemetry: telemetry().prefault({}).describe("OpenTelemetry"),
    autoscale: section(autoscaleShape).prefault({}).describe("when instances are added and taken away"),
    models: z.array(model(environment)).min(1).describe("what is served"),
  });

export type FleetConfig = z.output<ReturnType<typeof configSchema>>;
export type ModelConfig = FleetConfig["models"][number];
export type AutoscaleConfig = FleetConfig["autoscale"];
