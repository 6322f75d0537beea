/**
 * GET /api/tags, /api/ps and /api/version, POST /api/show and /api/pull, DELETE /api/delete: the served model and the
 * models on the disk, in Ollama's form.
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { ModelLibrary } from "../../core/model-library.js";
import {
  notPulled,
  OLLAMA_API_VERSION,
  pulled,
  pulledWhole,
  pullLines,
  withoutLatest,
  withoutTag,
} from "../../core/ollama-api.js";
import { ADMIN_KEY_REMEDY, checkAdministrator } from "../http/administration.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { capabilitiesOf, detailsOf, digestOf, modelEntries, startOf, tagsObject } from "../openai/model-tags.js";
import { modelField } from "../openai/schema-parts.js";

/** The model is never unloaded, so its expiry is the latest time that Ollama itself can state. */
const NEVER = "2318-01-01T00:00:00Z";

const namedSchema = z.strictObject({
  model: modelField.optional(),
  name: modelField.optional(),
  stream: z.boolean().optional(),
});

export const NAMED_RULES: FieldRules<(typeof namedSchema)["shape"]> = {
  schema: namedSchema,
  inert: new Set(),
  ignoresUnknown: true,
  unsupported: {},
};

export const tags = (c: AppContext, context: ServeContext): Response => c.json(tagsObject(context));

export function running(c: AppContext, context: ServeContext): Response {
  const facts = { expires_at: NEVER, size_vram: 0, context_length: context.engine.info.maxModelLen };
  return c.json({ models: modelEntries(context).map((entry) => ({ ...entry, ...facts })) });
}

export function apiVersion(c: AppContext, context: ServeContext): Response {
  return c.json({ version: OLLAMA_API_VERSION, millrace: context.version });
}

export async function show(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, NAMED_RULES, await readJsonObject(c, context.limits));
  const name = resolveModelName(context, request.model ?? request.name);
  const { info } = context.engine;
  return c.json({
    modelfile: `FROM ${name}\n`,
    parameters: Object.entries(context.samplingDefaults ?? {})
      .map(([key, value]) => `${key} ${value}`)
      .join("\n"),
    template: context.chatTemplate?.source ?? "",
    // Beyond Ollama's fields: a gateway's list needs these two.
    size: info.weightBytes,
    digest: digestOf(context),
    details: detailsOf(context),
    model_info: {
      "general.architecture": info.architecture,
      "general.parameter_count": info.numParameters,
      [`${info.architecture}.context_length`]: info.maxModelLen,
      [`${info.architecture}.embedding_length`]: info.embeddingWidth,
      [`${info.architecture}.vocab_size`]: info.vocabSize,
    },
    capabilities: capabilitiesOf(context),
    modified_at: startOf(context),
  });
}

/** Gives the library to requests with the administrator's key. Throws for others. */
function libraryOf(c: AppContext, { library, adminKey }: ServeContext): ModelLibrary {
  checkAdministrator(c, adminKey);
  if (library !== undefined) return library;
  throw new MillraceError("not_found", "expected a server that manages models, got one that does not");
}

/** A served model counts as pulled already. Other models are fetched from the hub, for the administrator only. */
export async function pull(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, NAMED_RULES, await readJsonObject(c, context.limits));
  const name = request.model ?? request.name;
  const isStream = request.stream !== false;
  if (isServed(context, name)) {
    const { type, text } = pulled(isStream);
    return c.body(text, 200, { "Content-Type": type });
  }
  if (context.adminKey === undefined) {
    throw notPulled(name ?? "", `${ADMIN_KEY_REMEDY}, which pulls, or with --model hf:OWNER/NAME`);
  }
  const job = libraryOf(c, context).pull(withoutLatest(name ?? ""));
  if (!isStream) return c.body(await pulledWhole(job), 200, { "Content-Type": "application/json" });
  const lines = pullLines(job, c.get("requestId"), () => context.lifecycle.isDraining);
  const body = ReadableStream.from(lines).pipeThrough(new TextEncoderStream());
  return c.body(body, 200, { "Content-Type": "application/x-ndjson" });
}

function isServed({ modelNames }: ServeContext, name: string | undefined): boolean {
  return name === undefined || modelNames.includes(withoutTag(name, modelNames));
}

/** Removes a model from the disk, for the administrator. */
export async function remove(c: AppContext, context: ServeContext): Promise<Response> {
  const library = libraryOf(c, context);
  const request = parseFields(c, context, NAMED_RULES, await readJsonObject(c, context.limits));
  await library.remove(withoutLatest(request.model ?? request.name ?? ""));
  return c.body(null, 200);
}
