/**
 * The quality of production traffic: samples, their checks, clients' feedback, drift of either, and the kept records.
 */
import { MillraceError } from "../../core/errors.js";
import type { RequestLogger } from "../../core/request-logger.js";
import { servedModel } from "../ledger/ledger-queries.js";
import type { Policy } from "../pipeline.js";
import type { Caller } from "../request.js";
import type { Database } from "../store/database.js";
import { groupCommitOf } from "../store/group-commit.js";
import { DriftWatch, type Judgement } from "./drift-watch.js";
import { readFeedback } from "./feedback.js";
import { type AnsweredSample, QualityPolicy } from "./quality-policy.js";
import { type Judged, QualityStore } from "./quality-store.js";
import { RetryWatch } from "./retry-watch.js";
import { DROP_REASONS, type DropReason, type JobRunner, SampleChecker } from "./sample-checker.js";
import { Sampler } from "./sampler.js";

interface QualitySettings {
  /** Share of requests that are sampled, 0 to 1. */
  readonly share: number;
  /** Least number of samples a day for each model and tenant. */
  readonly atLeast: number;
  /** Bytes of kept texts; 0: none. */
  readonly textBytes: number;
  readonly days: number;
  /** Days with at most one expected false alarm, over all series together. */
  readonly quietDays: number;
  readonly samplesTenant: (tenant: string) => boolean;
}

interface QualityOptions {
  readonly settings: QualitySettings;
  readonly database: Database.Database;
  readonly runner: JobRunner;
  readonly logger: RequestLogger;
  readonly alerts: ConstructorParameters<typeof DriftWatch>[0]["alerts"];
  /** The model, or virtual model, that a client's name stands for; undefined: none. */
  readonly modelOf: (name: string) => string | undefined;
  /** Version of the engine, settings and weights that answer under a model's name. */
  readonly versionOf: (model: string) => string | undefined;
  /** Name of the header that names a request's session, in lower case. */
  readonly sessionHeader: () => string;
  /** A random number in [0, 1). */
  readonly random: () => number;
  readonly epochMs: () => number;
}

export interface QualityCounts {
  /** Samples by model, and judgements by model and check, since the start. */
  readonly samples: ReadonlyMap<string, number>;
  readonly judged: ReadonlyMap<string, ReadonlyMap<string, { count: number; failing: number }>>;
  readonly drops: Readonly<Record<DropReason, number>>;
  /** Series, of all tenants or of one, whose drift lasts. */
  readonly drifted: readonly { readonly model: string; readonly name: string }[];
  readonly textBytes: number;
}

/** The known facts about an answer before its checks. */
interface Answered {
  readonly tenant: string;
  readonly model: string;
  readonly version: string;
  readonly weight: number;
  readonly isPlain: boolean;
}

/** Characters of a version that are kept: enough to distinguish versions. */
const VERSION_CHARACTERS = 12;

export class Quality {
  readonly policy: Policy;
  readonly store: QualityStore;
  readonly drift: DriftWatch;
  readonly settings: QualitySettings;
  readonly #checker: SampleChecker;
  readonly #retries: RetryWatch<Answered>;
  readonly #samples = new Map<string, number>();
  readonly #judged = new Map<string, Map<string, { count: number; failing: number }>>();
  readonly #drops = Object.fromEntries(DROP_REASONS.map((reason) => [reason, 0])) as Record<DropReason, number>;
  #isClosed = false;

  constructor(private readonly options: QualityOptions) {
    const { settings, database, runner, logger, alerts, modelOf, random, epochMs } = options;
    this.settings = settings;
    this.store = new QualityStore(database, groupCommitOf(database), settings);
    this.drift = new DriftWatch({ database, logger, quietDays: settings.quietDays, keepDays: settings.days, alerts });
    this.#checker = new SampleChecker(runner);
    this.#retries = new RetryWatch({
      sessionHeader: options.sessionHeader,
      epochMs,
      onNext: (answered, isRetry) => {
        const badness = Number(isRetry);
        this.#judgeAlone({ ...answered, atMs: epochMs(), name: "retry", badness, isFailing: isRetry }).catch(
          (thrown: unknown) => logger.error({ err: thrown }, "a retry could not be counted"),
        );
      },
    });
    const sampler = new Sampler({ share: settings.share, atLeast: settings.atLeast, random, epochMs });
    this.policy = new QualityPolicy({
      onRequest: (request) => this.#retries.seen(request),
      draw: ({ model: name, caller: { tenant } }) => {
        const model = modelOf(name);
        return model === undefined || !settings.samplesTenant(tenant) ? undefined : sampler.draw(model, tenant);
      },
      onSample: (sample) => void this.#take(sample),
      onTooLarge: () => this.#drops.too_large++,
    });
  }

  counts(): QualityCounts {
    const { textBytes } = this.store;
    return {
      samples: this.#samples,
      judged: this.#judged,
      drops: this.#drops,
      drifted: this.drift.drifted(this.options.epochMs()),
      textBytes,
    };
  }

  /**
   * Takes a client's feedback on a request of its own. Throws invalid_parameter, not_found, queue_full and
   * internal_error.
   */
  async give(
    caller: Caller,
    body: unknown,
  ): Promise<{ readonly request_id: string; readonly model: string; readonly score: number }> {
    const { requestId, score, correction, comment } = readFeedback(body);
    const { tenant } = caller;
    const sample = this.store.sampleOf(requestId, tenant);
    const model = sample?.model ?? (await servedModel(this.options.database, requestId, tenant));
    if (model === undefined) {
      throw new MillraceError("not_found", `expected the id of an answered request of this tenant, got ${requestId}`, {
        hint: "the id is in the header x-request-id of the answer; the ledger forgets it after keep-days",
      });
    }
    const [safeCorrection, safeComment] = await this.#redacted([correction, comment], tenant);
    const atMs = this.options.epochMs();
    const kept = { atMs, requestId, tenant, model, score, correction: safeCorrection, comment: safeComment };
    if (await this.store.addFeedback(kept)) {
      const version = sample?.version ?? this.#versionOf(model);
      const said = { name: "feedback", badness: (1 - score) / 2, isFailing: score < 0 };
      await this.#judgeAlone({ ...said, atMs, tenant, model, version, weight: 1, isPlain: true });
    }
    return { request_id: requestId, model, score };
  }

  /** Call after the last request and before the database closes. */
  async close(): Promise<void> {
    await this.#checker.close();
    this.#isClosed = true;
    groupCommitOf(this.options.database).flush();
    this.drift.close();
  }

  /** Runs when the client has its answer. */
  async #take({ request, draw, answer }: AnsweredSample): Promise<void> {
    const { epochMs, logger, modelOf, settings } = this.options;
    const atMs = epochMs();
    const { id: requestId, path, caller, record, bytes } = request;
    const { tenant, keyId: key = "" } = caller;
    const model = record.attempts.at(-1)?.model ?? modelOf(request.model) ?? request.model;
    const version = this.#versionOf(model);
    const { weight, isPlain } = draw;
    this.#retries.answered(request, { tenant, model, version, weight, isPlain });
    const job = {
      kind: "sample",
      path,
      // Copies, since they move to the thread.
      request: Uint8Array.from(bytes),
      answer: Uint8Array.from(answer.body),
      isEventStream: answer.isEventStream,
      keepsText: settings.textBytes > 0,
    } as const;
    const checked = await this.#checker.check(job, tenant);
    if (this.#isClosed) return;
    if (typeof checked === "string" || checked.kind !== "sample") {
      this.#drops[typeof checked === "string" ? checked : "unreadable"]++;
      return;
    }
    const { verdicts, text } = checked;
    try {
      const sample = { atMs, requestId, tenant, key, model, version, path, weight, verdicts, text };
      this.#samples.set(model, (this.#samples.get(model) ?? 0) + 1);
      this.drift.seen(model, version, atMs);
      for (const [name, { badness, isFailing }] of Object.entries(verdicts)) {
        this.#judge({ atMs, tenant, model, name, badness, isFailing, isPlain });
      }
      await this.store.add(sample);
    } catch (thrown) {
      this.#drops.failed++;
      logger.error({ err: thrown, requestId }, "a sample could not be kept");
    }
  }

  /** A judgement that comes after the answer's checks. */
  async #judgeAlone(judged: Judged & { readonly isPlain: boolean }): Promise<void> {
    this.#judge(judged);
    await this.store.addJudged(judged);
  }

  #judge({ isFailing, ...judgement }: Judgement & { readonly isFailing: boolean }): void {
    const { model, name } = judgement;
    const ofModel = this.#judged.get(model) ?? new Map<string, { count: number; failing: number }>();
    this.#judged.set(model, ofModel);
    const counts = ofModel.get(name) ?? { count: 0, failing: 0 };
    ofModel.set(name, counts);
    counts.count++;
    counts.failing += Number(isFailing);
    this.drift.add(judgement);
  }

  async #redacted(texts: readonly (string | undefined)[], tenant: string): Promise<readonly (string | undefined)[]> {
    const given = texts.filter((text) => text !== undefined);
    if (given.length === 0) return texts;
    const answer = await this.#checker.check({ kind: "texts", texts: given }, tenant);
    if (answer === "queue_full") {
      throw new MillraceError("queue_full", "expected a free place in the queue of feedback, got a full queue", {
        hint: "try again later",
      });
    }
    if (typeof answer === "string" || answer.kind !== "texts") {
      const got = typeof answer === "string" ? answer : answer.kind;
      throw new MillraceError("internal_error", `expected the feedback's texts without personal data, got ${got}`, {
        hint: "the feedback is not kept; send it without correction and comment, or report the gateway's log",
      });
    }
    const redacted = [...answer.texts];
    return texts.map((text) => (text === undefined ? undefined : redacted.shift()));
  }

  #versionOf(model: string): string {
    return (this.options.versionOf(model) ?? "").slice(0, VERSION_CHARACTERS);
  }
}
