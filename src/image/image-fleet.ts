/**
 * Prepares the millrace.yaml of an image from a preset or a file: checked, without secrets, and with models that the
 * first boot can download.
 */
import { type Document, parseDocument } from "yaml";
import { MillraceError } from "../core/errors.js";
import { isLoopback } from "../core/loopback.js";
import { ANY_ENVIRONMENT, parseConfig } from "../fleet/config/read-config.js";
import type { FleetConfig, ModelEntry } from "../fleet/config/schema.js";
import type { ImageEngine, ImageFleet, ImageRequest } from "./image-request.js";
import { variablesOf } from "./image-secrets.js";
import { BUNDLED_MODEL, ENGINE_SOURCES } from "./machine.js";
import { KEY_VARIABLE } from "./made-keys.js";

export interface FleetSource {
  /** Name of the preset or file. */
  readonly name: string;
  readonly text: string;
  /** Replaces the file's model: a path, a name on the hub, or `bundled`. */
  readonly model?: string | undefined;
}

const refuse = (expected: string, got: string, hint: string): MillraceError =>
  new MillraceError("invalid_option", `expected ${expected}, got ${got}`, { hint });

/** @example slugOf("Llama 3.1_8B.yaml") // "llama-3-1-8b" */
export function slugOf(name: string): string {
  const base = name.replace(/^.*[\\/]/, "").replace(/\.ya?ml$/i, "");
  const words = base.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return words.slice(0, 40).replace(/^-+|-+$/g, "") || "fleet";
}

function engineOf(models: readonly ModelEntry[]): ImageEngine {
  const engines = [...new Set(models.filter(({ model }) => model !== undefined).map(({ engine }) => engine))];
  const others = engines.filter((engine) => engine !== "millrace");
  const [engine, second] = others;
  if (engine === undefined) return "millrace";
  if (second === undefined && (engine === "vllm" || engine === "sglang")) return engine;
  const known = `millrace and one of ${Object.keys(ENGINE_SOURCES).join(", ")}`;
  throw refuse(
    `the engines of one image to be among ${known}`,
    others.join(", "),
    "attach servers of other engines by their URL",
  );
}

/** Whether the first boot of an empty machine can get the model. */
function isReachable({ engine, model = "" }: ModelEntry): boolean {
  if (/^\//.test(model) || /^hf:[^/\s]+\/[^/\s]+$/.test(model)) return true;
  return engine !== "millrace" && /^[\w.-]+\/[\w.-]+$/.test(model);
}

function assertReachable(models: readonly ModelEntry[]): void {
  const unreachable = models.find((model) => model.model !== undefined && !isReachable(model));
  if (unreachable === undefined) return;
  throw refuse(
    `a model that an empty machine can pull for ${JSON.stringify(unreachable.name)}`,
    JSON.stringify(unreachable.model),
    "name one with --model: hf:org/repo:Q4_K_M, an absolute path on that machine, or bundled",
  );
}

function numInstances({ instances }: ModelEntry): number {
  return typeof instances === "number" ? instances : typeof instances === "object" ? Math.max(1, instances.min) : 1;
}

function gpusOf(models: readonly ModelEntry[], isPod: boolean): number {
  return models.reduce((sum, model) => {
    const { engine, gpus, gpusPerInstance, instances, options } = model;
    if (engine === "millrace" || model.model === undefined) return sum;
    const perInstance = gpusPerInstance ?? (options.tensorParallelSize ?? 1) * (options.dataParallelSize ?? 1);
    const count = typeof instances === "object" ? instances.max : numInstances(model);
    return sum + (isPod ? perInstance : (gpus?.length ?? count * perInstance));
  }, 0);
}

function withModel(document: Document, { models }: FleetConfig, model: string): void {
  if (models.length !== 1) {
    throw refuse("--model for a file of one model", `${models.length} models`, "write it into the file");
  }
  if (models[0]!.model === undefined) {
    throw refuse("--model for a model that the fleet starts", "an attached one", "leave --model out");
  }
  if (model === "bundled" && models[0]!.engine !== "millrace") {
    throw refuse("--model bundled for millrace's engine", models[0]!.engine, "name a model on the hub");
  }
  document.setIn(["models", 0, "model"], model === "bundled" ? BUNDLED_MODEL : model);
}

/**
 * Applies the differences between targets: a pod has one instance with its own GPUs, and a machine without containers
 * has its engine in a folder.
 */
function adapt(document: Document, config: FleetConfig, target: ImageRequest["target"]): void {
  const isBare = target === "systemd" || target === "cloud-init" || target === "packer";
  for (const [index, { engine, model, program }] of config.models.entries()) {
    const at = (key: string) => ["models", index, key];
    if (model === undefined) continue;
    if (target === "kubernetes") {
      document.setIn(at("instances"), 1);
      document.deleteIn(at("gpus"));
      document.deleteIn(at("gpus-per-instance"));
    }
    if (isBare && program === undefined && (engine === "vllm" || engine === "sglang")) {
      document.setIn(at("program"), ENGINE_SOURCES[engine].program);
    }
  }
}

/** A container does not see its host's files; a machine's server reads them at the given paths. */
function assertCertificateFits({ sslCertfile, sslKeyfile }: FleetConfig, isContainer: boolean): void {
  const files = [sslCertfile, sslKeyfile].filter((file) => file !== undefined);
  if (files.length > 0 && isContainer) {
    const hint = "end TLS in front of the container: at a proxy, an Ingress or a load balancer";
    throw refuse("no ssl-certfile and ssl-keyfile for a container", "both", hint);
  }
  const relative = files.find((file) => !file.startsWith("/"));
  if (relative !== undefined) {
    const hint = "name files of that machine, such as /etc/millrace/tls/fullchain.pem";
    throw refuse("absolute paths as ssl-certfile and ssl-keyfile", JSON.stringify(relative), hint);
  }
}

/** Throws the first mistake in the file, invalid_option or config_secret. */
export function imageFleetOf(
  { name, text, model }: FleetSource,
  { target, host, port }: Pick<ImageRequest, "target" | "host" | "port">,
): ImageFleet {
  parseConfig(text, name, ANY_ENVIRONMENT);
  const document = parseDocument(text);
  if (model !== undefined) withModel(document, parseConfig(text, name, ANY_ENVIRONMENT), model);
  const isContainer = target === "docker" || target === "compose" || target === "kubernetes";
  document.setIn(["host"], isContainer ? "0.0.0.0" : host);
  document.setIn(["port"], port);
  const before = parseConfig(String(document), name, ANY_ENVIRONMENT);
  if (before.apiKeys.length === 0 && !isLoopback(before.host)) {
    document.setIn(["api-keys"], document.createNode([{ tenant: "default", key: `env:${KEY_VARIABLE}` }]));
  }
  assertCertificateFits(before, isContainer);
  adapt(document, before, target);
  const variables = variablesOf(document.toJS(), name);
  const engine = engineOf(before.models);
  assertReachable(before.models);
  const rendered = document.toString({ lineWidth: 0 });
  return {
    slug: slugOf(name),
    text: rendered,
    config: parseConfig(rendered, name, ANY_ENVIRONMENT),
    engine,
    numGpus: gpusOf(before.models, target === "kubernetes"),
    numPlanned: Math.max(1, numInstances(before.models[0]!)),
    variables,
  };
}
