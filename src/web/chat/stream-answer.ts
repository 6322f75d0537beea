/** Streams one answer: turns the server's events into a growing turn. */
import { ApiError, call } from "../api/client.js";
import { eventsOf } from "../api/events.js";
import {
  CACHE_ID,
  type Feedback,
  REQUEST_ID,
  type Speed,
  type TokenChoice,
  type ToolCall,
  type Trouble,
  type Turn,
} from "./conversation.js";

interface LogProb {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs?: readonly { readonly token: string; readonly logprob: number }[];
}

interface Delta {
  readonly content?: string | null;
  readonly reasoning?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly {
    readonly index: number;
    readonly function?: { readonly name?: string; readonly arguments?: string };
  }[];
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: Delta;
    readonly finish_reason?: string | null;
    readonly logprobs?: { readonly content?: readonly LogProb[] } | null;
  }[];
  readonly usage?: {
    readonly completion_tokens: number;
    readonly total_tokens: number;
    /** Dollars; only gateways that know a price send it. */
    readonly cost?: unknown;
  } | null;
}

interface StreamOptions {
  readonly request: Record<string, unknown>;
  /** The answer so far, if the request continues one. */
  readonly from: Turn;
  readonly contextLength: number | undefined;
  readonly signal: AbortSignal;
  /** Called with the turn each time it grows. */
  update(turn: Turn): void;
}

const MAX_CALLS = 1024;
const CONTEXT_CODES: readonly (string | undefined)[] = ["context_length_exceeded", "kv_capacity_exceeded"];

function choiceOf({ token, logprob, top_logprobs = [] }: LogProb): TokenChoice {
  const others = top_logprobs.map((other) => ({ text: other.token, probability: Math.exp(other.logprob) }));
  return { text: token, probability: Math.exp(logprob), others };
}

function withCalls(known: readonly ToolCall[], deltas: NonNullable<Delta["tool_calls"]>): readonly ToolCall[] {
  const calls = [...known];
  for (const { index, function: more } of deltas) {
    if (!Number.isInteger(index) || index < 0 || index >= MAX_CALLS) continue;
    const before = calls[index] ?? { name: "", arguments: "" };
    calls[index] = { name: before.name + (more?.name ?? ""), arguments: before.arguments + (more?.arguments ?? "") };
  }
  return calls;
}

/** The ids by which the server accepts feedback on the answer. */
function feedbackIn(headers: Headers): Feedback | undefined {
  const requestId = headers.get("x-request-id") ?? "";
  if (!REQUEST_ID.test(requestId)) return undefined;
  const cacheId = headers.get("x-millrace-cache-id") ?? "";
  const isSemantic = headers.get("x-millrace-cache-kind") === "semantic" && CACHE_ID.test(cacheId);
  return { requestId, ...(isSemantic ? { cacheId } : {}) };
}

/** Never rejects: a failed answer is a turn with the error. */
export async function streamAnswer(options: StreamOptions): Promise<Turn> {
  // Feedback on the answer so far does not apply to its continuation.
  const { trouble: _trouble, error: _error, feedback: _feedback, ...from } = options.from;
  let turn: Turn = from;
  const fail = (trouble: Trouble, error?: string): Turn => ({
    ...turn,
    trouble,
    ...(error === undefined ? {} : { error }),
  });
  try {
    const end = await grow(options, turn, (grown) => {
      turn = grown;
      options.update(grown);
    });
    return end === undefined ? turn : fail(end);
  } catch (thrown) {
    if (options.signal.aborted) return fail("stopped");
    if (thrown instanceof ApiError && CONTEXT_CODES.includes(thrown.code)) return fail("too-long", thrown.message);
    // A connection that fails within an answer causes an error without a code.
    if (!(thrown instanceof ApiError) && turn.content !== "") return fail("broken");
    return fail("failed", (thrown as Error).message);
  }
}

async function grow(
  { request, from, contextLength, signal }: StreamOptions,
  begun: Turn,
  update: (turn: Turn) => void,
): Promise<Trouble | undefined> {
  let turn = begun;
  let [finish, isFull, numSeen]: [string | undefined, boolean, number] = [undefined, false, 0];
  let [firstAtMs, lastAtMs]: [number | undefined, number] = [undefined, 0];
  const startMs = performance.now();
  const speed = (numTokens: number): Speed => {
    const firstMs = firstAtMs === undefined ? undefined : firstAtMs - startMs;
    return { numTokens, firstMs, restMs: firstAtMs === undefined ? 0 : lastAtMs - firstAtMs };
  };
  const answer = await call("v1/chat/completions", { method: "POST", json: request, signal });
  const feedback = feedbackIn(answer.headers);
  if (feedback !== undefined) turn = { ...turn, feedback };
  const stream = eventsOf(answer.body!);
  for (;;) {
    const next = await stream.next();
    if (next.done === true) {
      if (!next.value && finish === undefined) return "broken";
      if (finish === "length") return isFull ? "full" : "cut";
      return undefined;
    }
    const { choices = [], usage } = next.value as Chunk;
    const { delta = {}, finish_reason: reason, logprobs } = choices[0] ?? {};
    finish ??= reason ?? undefined;
    const reasoning = delta.reasoning ?? delta.reasoning_content ?? "";
    const content = delta.content ?? "";
    const calls = delta.tool_calls ?? [];
    if (content !== "" || reasoning !== "" || calls.length > 0) {
      lastAtMs = performance.now();
      firstAtMs ??= lastAtMs;
      numSeen++;
    }
    if (usage != null) isFull = contextLength !== undefined && usage.total_tokens >= contextLength;
    turn = {
      ...turn,
      content: turn.content + content,
      ...(reasoning === "" ? {} : { reasoning: (turn.reasoning ?? "") + reasoning }),
      ...(calls.length === 0 ? {} : { toolCalls: withCalls(turn.toolCalls ?? [], calls) }),
      ...(logprobs?.content == null
        ? {}
        : { tokens: [...(turn.tokens ?? from.tokens ?? []), ...logprobs.content.map(choiceOf)] }),
      speed: speed(usage?.completion_tokens ?? numSeen),
      ...(typeof usage?.cost === "number" ? { cost: (from.cost ?? 0) + usage.cost } : {}),
    };
    update(turn);
  }
}
