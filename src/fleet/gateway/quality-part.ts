/** The quality of production traffic, as configured: its policy, POST /v1/feedback, and the administrator's paths. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Hono } from "hono";
import type { Logger } from "pino";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { objectOf, readIncoming, textOf } from "../../core/json-body.js";
import { type Alert, AlertStore } from "../../gateway/alerts/alert-store.js";
import { OPENAI } from "../../gateway/api/dialect.js";
import type { Policy } from "../../gateway/pipeline.js";
import { Quality, type QualityCounts } from "../../gateway/quality/quality.js";
import { createQualityApp } from "../../gateway/quality/quality-app.js";
import { checkThread, type JobRunner } from "../../gateway/quality/sample-checker.js";
import type { Caller } from "../../gateway/request.js";
import type { Database } from "../../gateway/store/database.js";
import { matchesGlob } from "../../gateway/tenants/model-globs.js";
import type { FleetConfig } from "../config/schema.js";
import { logFailure, respondJson, respondWithError } from "../proxy/respond.js";

const FEEDBACK_PATH = "/v1/feedback";
const BODY_LIMITS = { maxBodyBytes: 64 * 1024, bodyTimeoutMs: 10_000 };

interface QualityContext {
  /** Configuration at the start. */
  readonly config: FleetConfig;
  readonly database: () => Database.Database;
  readonly logger: Logger;
  /** Resolves a client's name to a model or virtual model. */
  readonly modelOf: (name: string) => string | undefined;
  readonly versionOf: (model: string) => string | undefined;
  /** Lower-case name of the header with a request's session; a reload may change it. */
  readonly sessionHeader: () => string;
  readonly authorize: (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;
  readonly onAlert?: (alert: Alert) => void;
  /** For tests. */
  readonly runner?: JobRunner;
  readonly random?: () => number;
  readonly epochMs?: () => number;
}

export class QualityPart {
  readonly #quality: Quality | undefined;
  readonly #epochMs: () => number;

  constructor(private readonly context: QualityContext) {
    const {
      config,
      database,
      logger,
      modelOf,
      versionOf,
      sessionHeader,
      random = Math.random,
      epochMs = Date.now,
    } = context;
    this.#epochMs = epochMs;
    const { quality: settings, alerts, hooks } = config;
    if (settings === undefined) return;
    const { sample: share, atLeast, keep: textBytes, keepDays: days, quietDays, tenants } = settings;
    const patterns = hooks.guardrails.flatMap((guardrail) =>
      guardrail.patterns.map(({ name, regex, wholeWord, ignoreCase }) => ({
        name,
        regex,
        isWholeWord: wholeWord,
        ignoresCase: ignoreCase,
      })),
    );
    const samplesTenant = (tenant: string): boolean => tenants.some((glob) => matchesGlob(glob, tenant));
    const opened = database();
    this.#quality = new Quality({
      settings: { share, atLeast, textBytes, days, quietDays, samplesTenant },
      database: opened,
      runner: context.runner ?? checkThread(patterns),
      logger,
      alerts: alerts && {
        store: new AlertStore(opened, context.onAlert),
        coolDownMs: alerts.coolDown,
        numReceivers: alerts.webhook.length,
      },
      modelOf,
      versionOf,
      sessionHeader,
      random,
      epochMs,
    });
  }

  policies(): readonly Policy[] {
    return this.#quality === undefined ? [] : [this.#quality.policy];
  }

  /** Paths under /admin; undefined without sampling. */
  adminApp(): Hono | undefined {
    return this.#quality && createQualityApp(this.#quality, this.#epochMs);
  }

  /** Undefined without sampling. */
  counts(): QualityCounts | undefined {
    return this.#quality?.counts();
  }

  /** Answers POST /v1/feedback. @returns whether the request has this path */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): boolean {
    if ((incoming.url ?? "").split("?", 1)[0] !== FEEDBACK_PATH) return false;
    this.#give(incoming)
      .then((answer) => respondJson(outgoing, 200, requestId, answer))
      .catch((thrown: unknown) => {
        const error = toMillraceError(thrown);
        logFailure(this.context.logger, error, requestId, FEEDBACK_PATH);
        respondWithError(outgoing, error, OPENAI, requestId);
      });
    return true;
  }

  /** Call it after the last request and before the database closes. */
  async close(): Promise<void> {
    await this.#quality?.close();
  }

  async #give(incoming: IncomingMessage): Promise<object> {
    if (incoming.method !== "POST") {
      throw new MillraceError("method_not_allowed", `expected POST ${FEEDBACK_PATH}, got ${incoming.method}`);
    }
    const caller = await this.context.authorize(incoming.headers);
    if (this.#quality === undefined) {
      const hint = "add quality: {} and ledger: {} to the gateway's file, and start it again";
      throw new MillraceError("not_found", "expected a gateway that takes feedback, got one that does not", { hint });
    }
    const bytes = await readIncoming(incoming, BODY_LIMITS);
    return await this.#quality.give(caller, objectOf(textOf(bytes), bytes.length));
  }
}
