/** The gateway's own answers to Ollama's API, beside the paths that go to instances. */
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { readBody } from "../../core/body-reader.js";
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import { readIncoming } from "../../core/json-body.js";
import type { ModelLibrary } from "../../core/model-library.js";
import { STARTED_AT_SECONDS } from "../../core/model-list.js";
import {
  notPulled,
  OLLAMA_API_VERSION,
  pulled,
  pulledWhole,
  pullLines,
  withoutLatest,
  withoutTag,
  withTag,
} from "../../core/ollama-api.js";
import { packageVersion } from "../../core/package-root.js";
import type { Caller, RequestBody } from "../../gateway/request.js";
import type { UpstreamPool } from "../upstream/upstream.js";
import { maxModelLenOf } from "./fleet-info.js";
import type { InstanceDocuments } from "./instance-documents.js";
import type { ProxyOptions } from "./options.js";
import { modelOf } from "./request-terms.js";

interface InfoContext {
  readonly options: Pick<ProxyOptions, "pool" | "limits" | "modelOf">;
  /** Our own engine's answers to /api/show. */
  readonly shown: InstanceDocuments;
  /** The names that the caller may use. */
  modelsOf(caller: Caller): readonly string[];
}

interface InfoAnswer {
  readonly type: string;
  /** Successive lines, or the complete text. */
  readonly text: string | AsyncIterable<string>;
}

const json = (value: object): InfoAnswer => ({ type: "application/json", text: JSON.stringify(value) });

/** Clients never unload the model: this is the end of Ollama's range of times. */
const NEVER = "2318-01-01T00:00:00Z";

const NO_DETAILS = {
  parent_model: "",
  format: "",
  family: "",
  families: [],
  parameter_size: "",
  quantization_level: "",
};

const TOLD = z
  .object({
    size: z.int().nonnegative().catch(0),
    digest: z.string().catch(""),
    details: z.looseObject({}).catch(NO_DETAILS),
    capabilities: z.array(z.string()).optional().catch(undefined),
  })
  .catch({ size: 0, digest: "", details: NO_DETAILS });

/** Size, digest and details are filled for loaded models of our own engine, and empty for others. */
async function entryOf(name: string, shown: InstanceDocuments): Promise<object> {
  const told = await shown
    .of(name)
    .then((document) => JSON.parse(document.toString("utf8")) as unknown)
    .catch(() => undefined);
  return { name: withTag(name), model: withTag(name), ...TOLD.parse(told) };
}

/** The facts of a model whose engine reports none. @param pool its instances may report the longest request */
function plainFacts(model: string, pool: UpstreamPool): object {
  const length = maxModelLenOf(model, pool);
  return {
    modelfile: `FROM ${model}\n`,
    parameters: "",
    template: "",
    details: NO_DETAILS,
    model_info: { "general.architecture": "unknown", ...(length && { "unknown.context_length": length }) },
    capabilities: ["completion"],
    modified_at: STARTED_AT,
  };
}

const STARTED_AT = new Date(1000 * STARTED_AT_SECONDS).toISOString();

const PATHS: ReadonlyMap<string, "GET" | "POST" | "DELETE"> = new Map([
  ["/api/tags", "GET"],
  ["/api/ps", "GET"],
  ["/api/version", "GET"],
  ["/api/show", "POST"],
  ["/api/pull", "POST"],
  ["/api/delete", "DELETE"],
]);

/** Whether the path changes models on the disk, which is the administrator's right. */
export const changesDisk = (path: string): boolean => path === "/api/pull" || path === "/api/delete";

/** The method of one of these paths. */
export const ollamaInfoMethod = (path: string): string | undefined => PATHS.get(path);

/** Whether the request is for one of these paths. */
export function isOllamaInfo(method: string | undefined, path: string): boolean {
  const expected = PATHS.get(path);
  return method === expected || (method === "HEAD" && expected === "GET");
}

/** Whether the path is open without a key. */
export const isOpenInfo = (path: string): boolean => path === "/api/version";

/** Earlier releases of Ollama send the name as `name`. Throws invalid_parameter. */
function nameIn(body: RequestBody): string | undefined {
  const param = body.model == null ? "name" : "model";
  const value = body[param] ?? undefined;
  if (value === undefined || typeof value === "string") return value;
  const message = `${param}: expected a model's name as a string, got ${describeValue(value)}`;
  throw new MillraceError("invalid_parameter", message, { param });
}

async function bodyOf(incoming: IncomingMessage, context: InfoContext, tenant: string): Promise<RequestBody> {
  const bytes = await readIncoming(incoming, context.options.limits);
  return (await readBody(bytes, { tenant, onWait: () => () => {} })).body;
}

interface DiskRequest {
  readonly incoming: IncomingMessage;
  readonly path: string;
  readonly requestId: string;
  readonly isLeaving: () => boolean;
}

/** For the administrator: fetches a model from the hub, or removes one from the disk. */
export async function ollamaDisk(
  context: InfoContext,
  request: DiskRequest,
  library: ModelLibrary,
): Promise<InfoAnswer> {
  const { incoming, path, requestId, isLeaving } = request;
  const body = await bodyOf(incoming, context, "");
  const asked = nameIn(body) ?? "";
  const names = context.options.pool.models();
  const isStream = body.stream !== false;
  if (path === "/api/pull" && names.includes(withoutTag(asked, names))) return pulled(isStream);
  const name = withoutLatest(asked);
  if (path === "/api/delete") {
    await library.remove(name);
    return { type: "application/json", text: "" };
  }
  const pull = library.pull(name);
  if (!isStream) return { type: "application/json", text: await pulledWhole(pull) };
  return { type: "application/x-ndjson", text: pullLines(pull, requestId, isLeaving) };
}

/** Throws model_not_found for a model that the caller may not use, and invalid_parameter. */
export async function ollamaInfo(
  context: InfoContext,
  incoming: IncomingMessage,
  path: string,
  caller: Caller | undefined,
): Promise<InfoAnswer> {
  if (caller === undefined) return json({ version: OLLAMA_API_VERSION, millrace: packageVersion() });
  const names = context.modelsOf(caller);
  const { shown } = context;
  if (path === "/api/tags") {
    const times = { modified_at: STARTED_AT };
    return json({
      models: await Promise.all(names.map(async (name) => ({ ...(await entryOf(name, shown)), ...times }))),
    });
  }
  if (path === "/api/ps") {
    const ready = names.filter((name) => context.options.pool.upstreams(name).some(({ state }) => state === "ready"));
    const facts = (name: string) => ({
      expires_at: NEVER,
      size_vram: 0,
      context_length: maxModelLenOf(name, context.options.pool),
    });
    return json({
      models: await Promise.all(ready.map(async (name) => ({ ...(await entryOf(name, shown)), ...facts(name) }))),
    });
  }
  const body = await bodyOf(incoming, context, caller.tenant);
  const asked = nameIn(body);
  const name = asked === undefined ? undefined : withoutTag(asked, names);
  if (path === "/api/pull") {
    if (name !== undefined && names.includes(name)) return pulled(body.stream !== false);
    throw notPulled(name ?? "", "the administrator's key pulls models of the hub, and loads them");
  }
  const model = modelOf(name === undefined ? {} : { model: name }, names, context.options.modelOf);
  const facts = await shown.of(model).catch(() => undefined);
  if (facts === undefined) return json(plainFacts(model, context.options.pool));
  return { type: "application/json", text: facts.toString("utf8") };
}
