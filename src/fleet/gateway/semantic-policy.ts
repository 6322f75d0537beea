/** Creates the semantic cache from the configuration: it asks models of this fleet for vectors and judgements. */
import { createHash, randomUUID } from "node:crypto";
import { MillraceError } from "../../core/errors.js";
import { limitedText } from "../../core/limited-text.js";
import { BufferSink } from "../../gateway/answer.js";
import { tenantScope } from "../../gateway/cache/answer-key.js";
import { Cancellation } from "../../gateway/cancellation.js";
import { CUT_TEXTS, CUTTING_ENGINES } from "../../gateway/cut-texts.js";
import { answerText } from "../../gateway/semantic/answer-text.js";
import { Embedder } from "../../gateway/semantic/embedder.js";
import { answerJudge, type Judge, modelJudge, remoteJudge } from "../../gateway/semantic/judge.js";
import { ModelCache } from "../../gateway/semantic/model-cache.js";
import { type CachedModel, OWN_TENANT, SemanticCache } from "../../gateway/semantic/policy.js";
import { Entries } from "../../gateway/semantic/store/entries.js";
import { Judgements } from "../../gateway/semantic/store/judgements.js";
import { RULES_VERSION } from "../../gateway/semantic/subject.js";
import { groupCommitOf } from "../../gateway/store/group-commit.js";
import type { ModelEntry } from "../config/schema.js";
import { needsKeys } from "./authorize.js";
import type { PolicyContext } from "./policy-context.js";

type Settings = NonNullable<ModelEntry["semanticCache"]>;

/** @returns undefined if no model has a semantic cache */
export function createSemanticCache(context: PolicyContext): SemanticCache | undefined {
  const { config, logger } = context;
  if (!config().models.some(({ semanticCache }) => semanticCache !== undefined)) return undefined;
  const caches = new ModelCaches(context);
  return new SemanticCache({
    cacheOf: (name) => caches.of(name),
    all: () => caches.all(),
    scopeOf: (request) => tenantScope(request, needsKeys(config())),
    onFailure: (err, model) => logger.warn({ err, model }, "the semantic cache could not learn from an answer"),
  });
}

interface Known {
  /** Hash of all settings that the cache was created from. */
  readonly made: string;
  readonly cached: CachedModel;
}

class ModelCaches {
  readonly #known = new Map<string, Known>();

  constructor(private readonly context: PolicyContext) {}

  all(): readonly ModelCache[] {
    return [...this.#known.values()].map(({ cached }) => cached.cache);
  }

  /** @returns undefined also while the version of the model or of the embedder is unknown */
  of(name: string): CachedModel | undefined {
    const { config, models } = this.context;
    const model = models.resolve(name);
    const settings = config().models.find((each) => each.name === model)?.semanticCache;
    if (model === undefined || settings === undefined) return undefined;
    const embedderModel = models.resolve(settings.embeddings);
    const [version, embedderVersion] = [models.version(model), models.version(embedderModel ?? "")];
    if (version === undefined || embedderVersion === undefined) return undefined;
    const embedder = `${embedderModel} ${embedderVersion}`;
    // The settings' JSON hides secrets, so the key is added.
    const made = hashOf(model, embedder, settings, settings.judge?.apiKey?.reveal());
    const known = this.#known.get(model);
    if (known?.made === made) return known.cached.version === version ? known.cached : this.#renew(known, version);
    known?.cached.cache.parts.entries.close();
    const cached = { cache: this.#create(model, embedder, settings), model, version, embedder };
    this.#known.set(model, { made, cached });
    return cached;
  }

  /** For new weights: older answers are in other namespaces, and the cache keeps its knowledge about questions. */
  #renew({ made, cached }: Known, version: string): CachedModel {
    const renewed = { ...cached, version };
    this.#known.set(cached.model, { made, cached: renewed });
    return renewed;
  }

  #create(model: string, embedderName: string, settings: Settings): ModelCache {
    const { cacheDatabase, database, logger } = this.context;
    // Questions and answers can be created again; judgements cannot.
    const [kept, learned] = [cacheDatabase("semantic"), database()];
    const { judge, strictness, maxEntries, maxBytes, ttl: ttlMs, multiTurn: isMultiTurn } = settings;
    const embedder = new Embedder((texts) => embed(this.context, settings.embeddings, texts));
    const judgeName = [judge?.model ?? null, judge?.url ?? null];
    const scope = hashOf(
      RULES_VERSION,
      model,
      embedderName,
      strictness,
      settings.minSimilarity,
      isMultiTurn,
      judgeName,
    );
    const onFailure = (err: unknown) => logger.warn({ err, model }, "the semantic cache's database failed");
    const entries = new Entries(kept, groupCommitOf(kept), model, { maxEntries, maxBytes });
    entries.opened.catch(onFailure);
    return new ModelCache({
      model,
      settings: { ...settings, ttlMs, isMultiTurn, embedTimeoutMs: settings.embedTimeout },
      embedder,
      entries,
      judgements: new Judgements(learned, groupCommitOf(learned), scope),
      judge: judgeOf(this.context, judge, embedder),
      onDisabled: ({ trust }) =>
        logger.error({ model, trust }, "audits have contradicted max-error, so the semantic cache serves nothing more"),
    });
  }
}

function judgeOf(context: PolicyContext, settings: Settings["judge"], embedder: Embedder): Judge {
  const { model, url, apiKey, timeout: timeoutMs = 0 } = settings ?? {};
  if (model !== undefined) {
    return modelJudge(async (prompt) => {
      const body = { model, messages: [{ role: "user", content: prompt }], temperature: 0, max_tokens: 512 };
      const answer = await ask(context, "/v1/chat/completions", body, timeoutMs);
      return answerText("/v1/chat/completions", false, answer) ?? "";
    });
  }
  if (url === undefined) return answerJudge((text) => embedder.vectorOf(text));
  return remoteJudge(async (json) => {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey.reveal()}` }),
      },
      body: JSON.stringify(json),
      redirect: "error",
      signal: AbortSignal.timeout(timeoutMs),
    });
    return JSON.parse(await limitedText(response, MAX_VERDICT_BYTES));
  });
}

const MAX_VERDICT_BYTES = 64 * 1024;
const EMBED_TIMEOUT_MS = 10_000;

async function embed(context: PolicyContext, model: string, texts: readonly string[]): Promise<number[][]> {
  const own = context.models.resolve(model) ?? model;
  const cut = CUTTING_ENGINES.includes(context.models.engine(own) ?? "") ? CUT_TEXTS : {};
  const body = await ask(context, "/v1/embeddings", { model, input: texts, ...cut }, EMBED_TIMEOUT_MS);
  const { data } = JSON.parse(body.toString()) as { readonly data?: readonly Vector[] };
  const vectors: number[][] = [];
  for (const { index, embedding } of Array.isArray(data) ? data : []) {
    if (Array.isArray(embedding) && Number.isInteger(index)) vectors[index] = embedding;
  }
  return vectors;
}

interface Vector {
  readonly index: number;
  readonly embedding: number[];
}

/** @returns the body of the answer; rejects on any other status than success */
async function ask({ submit }: PolicyContext, path: string, body: object, timeoutMs: number): Promise<Buffer> {
  const cancellation = new Cancellation();
  const late = new MillraceError("deadline_exceeded", `expected an answer of ${path} within ${timeoutMs} ms, got none`);
  const timer = setTimeout(() => cancellation.cancel(late), timeoutMs);
  const sink = new BufferSink();
  try {
    const id = `semantic-${randomUUID()}`;
    await submit(
      { id, path, body: body as Readonly<Record<string, unknown>>, caller: { tenant: OWN_TENANT }, cancellation },
      sink,
    );
  } finally {
    clearTimeout(timer);
  }
  const answer = sink.answer();
  if (answer?.error === undefined && answer?.head.status === 200) return answer.body;
  throw (
    answer?.error ??
    new MillraceError("upstream_failed", `expected 200 of ${path}, got ${answer?.head.status ?? "nothing"}`)
  );
}

function hashOf(...facts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex");
}
