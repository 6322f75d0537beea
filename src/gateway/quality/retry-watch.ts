/** Notices sessions that soon repeat their question: the previous answer did not satisfy. */
import { isPlainObject } from "../../core/is-plain-object.js";
import { sha256 } from "../cache/answer-key.js";
import type { GatewayRequest } from "../request.js";
import { lastText } from "../routes/request-facts.js";
import { sessionOf } from "../session.js";

interface Asked<Fact> {
  readonly atMs: number;
  /** Hash of the question. */
  readonly question: string;
  readonly fact: Fact;
}

interface RetryOptions<Fact> {
  /** Name of the header that names the session, in lower case. */
  readonly sessionHeader: () => string;
  readonly epochMs: () => number;
  /** Called when a session goes on. @param isRetry whether it has repeated its question */
  readonly onNext: (fact: Fact, isRetry: boolean) => void;
}

/** A later question says nothing about the last answer. */
const WINDOW_MS = 600_000;
const MAX_SESSIONS = 10_000;
const MAX_NAME_LENGTH = 200;

/** @typeParam Fact the known facts of a sampled request */
export class RetryWatch<Fact> {
  /** Questions by tenant and session, the oldest first. */
  readonly #asked = new Map<string, Asked<Fact>>();

  constructor(private readonly options: RetryOptions<Fact>) {}

  /** Call with every request, before it is answered. */
  seen(request: GatewayRequest): void {
    if (this.#asked.size === 0) return;
    const key = this.#keyOf(request);
    const asked = key === undefined ? undefined : this.#asked.get(key);
    if (key === undefined || asked === undefined) return;
    const question = questionOf(request);
    if (question === undefined) return;
    this.#asked.delete(key);
    const { epochMs, onNext } = this.options;
    if (epochMs() - asked.atMs <= WINDOW_MS) onNext(asked.fact, asked.question === question);
  }

  /** Call with a sampled request that has been answered. */
  answered(request: GatewayRequest, fact: Fact): void {
    const key = this.#keyOf(request);
    const question = questionOf(request);
    if (key === undefined || question === undefined) return;
    this.#asked.delete(key);
    this.#asked.set(key, { atMs: this.options.epochMs(), question, fact });
    if (this.#asked.size > MAX_SESSIONS) this.#asked.delete(this.#asked.keys().next().value!);
  }

  #keyOf({ headers, body, caller }: GatewayRequest): string | undefined {
    const session = sessionOf(headers, this.options.sessionHeader(), body);
    return session && `${caller.tenant}\n${session.slice(0, MAX_NAME_LENGTH)}`;
  }
}

/**
 * The question's hash; capitals and spaces do not count.
 * @returns undefined if the last message has no text of the user, as in a step of a loop of tools
 */
function questionOf({ body: { messages, input, prompt } }: GatewayRequest): string | undefined {
  const items = messages ?? input ?? prompt;
  const last: unknown = Array.isArray(items) ? items.at(-1) : items;
  if (isPlainObject(last) && (last.role !== "user" || hasToolResult(last.content))) return undefined;
  const text = lastText({ input: last }).toLowerCase().replace(/\s+/g, " ").trim();
  return text === "" ? undefined : sha256(text);
}

/** Results of tools come from the user in the Messages dialect. */
const hasToolResult = (content: unknown): boolean =>
  Array.isArray(content) && content.some((part) => isPlainObject(part) && part.type === "tool_result");
