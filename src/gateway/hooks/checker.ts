/**
 * Asks a service of the operator's whether texts may pass. The service speaks the moderation API of OpenAI, or answers
 * with `allowed`.
 */
import { MillraceError } from "../../core/errors.js";
import { limitedText } from "../../core/limited-text.js";
import type { Stage } from "./stage.js";

interface CheckerSettings {
  readonly name: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** If the checker does not answer, the texts pass, or the request fails with guardrail_failed. */
  readonly onFailure: "fail-open" | "fail-closed";
  readonly onProblem: (thrown: unknown) => void;
}

interface Checked {
  readonly texts: readonly string[];
  readonly stage: Stage;
  readonly model: string;
  readonly requestId: string;
  readonly onCancel: (leave: () => void) => () => void;
}

/** The reason of a refusal; undefined: the texts may pass. */
type Verdict = string | undefined;

const MAX_ANSWER_BYTES = 64 * 1024;
/** Further checks count as failed: the service cannot keep up. */
const MAX_RUNNING = 256;
const MAX_REASON_CHARACTERS = 200;

export class Checker {
  #numRunning = 0;

  constructor(private readonly settings: CheckerSettings) {}

  /** Rejects with guardrail_failed if there is no answer and the checker fails closed. */
  async check(checked: Checked): Promise<Verdict> {
    const { name, onFailure, onProblem } = this.settings;
    try {
      if (this.#numRunning >= MAX_RUNNING) throw new Error(`expected at most ${MAX_RUNNING} checks at once, got more`);
      this.#numRunning++;
      try {
        return verdictIn(await this.#ask(checked));
      } finally {
        this.#numRunning--;
      }
    } catch (thrown) {
      onProblem(thrown);
      if (onFailure === "fail-open") return undefined;
      throw new MillraceError("guardrail_failed", `expected an answer of the guardrail ${name}, got none`, {
        hint: "try again; the operator's checker does not answer",
        retryAfterSeconds: 5,
        cause: thrown,
      });
    }
  }

  async #ask({ texts, stage, model, requestId, onCancel }: Checked): Promise<unknown> {
    const { url, headers, timeoutMs } = this.settings;
    const controller = new AbortController();
    const timer = setTimeout(
      () => controller.abort(new Error(`expected an answer within ${timeoutMs} ms, got none`)),
      timeoutMs,
    );
    const endWatch = onCancel(() => controller.abort(new Error("the client left")));
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json", "x-request-id": requestId },
        body: JSON.stringify({ input: texts, stage, model, request_id: requestId }),
        redirect: "error",
        signal: controller.signal,
      });
      const text = await limitedText(response, MAX_ANSWER_BYTES);
      if (!response.ok) throw new Error(`expected 200 from ${url}, got ${response.status}`);
      return JSON.parse(text);
    } finally {
      clearTimeout(timer);
      endWatch();
    }
  }
}

/** Throws for an answer of another form, without a verdict, or with a contradiction. */
function verdictIn(answer: unknown): Verdict {
  const { allowed, reason, results } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  const isAllowed = allowed === undefined || typeof allowed === "boolean";
  if (!isAllowed || (allowed === undefined && results === undefined)) throw otherForm();
  const flagged = results === undefined ? undefined : flaggedIn(results);
  if (allowed !== undefined && flagged !== undefined && allowed === flagged.length > 0) {
    throw new Error(`expected a verdict, got "allowed": ${allowed} beside ${flagged.length} flagged results`);
  }
  if (allowed ?? flagged?.length === 0) return undefined;
  if (typeof reason === "string" && reason !== "") return reason.slice(0, MAX_REASON_CHARACTERS);
  const categories = (flagged ?? []).flatMap((each) =>
    Object.entries(each.categories ?? {}).filter(([, value]) => value === true),
  );
  const names = [...new Set(categories.map(([name]) => name))].join(", ");
  if (names !== "") return names.slice(0, MAX_REASON_CHARACTERS);
  return flagged === undefined ? "refused content" : "flagged content";
}

interface Result {
  readonly flagged: boolean;
  readonly categories?: Readonly<Record<string, unknown>> | null;
}

function flaggedIn(results: unknown): readonly Result[] {
  if (!Array.isArray(results) || !results.every((each) => typeof each?.flagged === "boolean")) throw otherForm();
  if (results.length === 0) throw new Error("expected a result for the texts, got none");
  return (results as Result[]).filter((each) => each.flagged);
}

function otherForm(): Error {
  return new Error('expected {"allowed": true or false} or {"results": [{"flagged": …}]}, got something else');
}
