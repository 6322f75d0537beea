/**
 * Records each request for Langfuse: times, tokens, cost, outcome, and the texts only if the operator wants them. Two
 * policies, around the guardrails: texts are recorded as the guardrails leave them.
 */
import type { JsonObject } from "../../core/json-body.js";
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";
import { formatDollars } from "../money.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";
import type { RequestRecord } from "../usage/record.js";
import { streamedTexts } from "./guarded-events.js";
import type { LangfuseEvent } from "./langfuse-queue.js";

interface LangfuseOptions {
  readonly queue: { push(event: LangfuseEvent): void; close(): Promise<void> };
  readonly appliesTo: (model: string) => boolean;
  /** Whether prompts and answers are sent. */
  readonly sendsTexts: boolean;
  readonly maxTextBytes: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Bytes of a stream that are kept for each byte of text: events have many bytes around their texts. */
const EVENT_OVERHEAD = 8;
/** Settings of a request that are shown. */
const PARAMETERS = [
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "seed",
  "reasoning_effort",
];

interface Recorded {
  input: JsonObject | undefined;
}

export class Langfuse {
  readonly #recorded = new WeakMap<RequestRecord, Recorded>();

  constructor(private readonly options: LangfuseOptions) {}

  /** Before the guardrails: sees the answers that clients see. */
  readonly outer: Policy = {
    name: "langfuse",
    handle: (request, sink, next) => this.#handle(request, sink, next),
    close: () => this.options.queue.close(),
  };

  /** After the guardrails: sees the prompts that models see. */
  readonly inner: Policy = {
    name: "langfuse-input",
    handle: (request, sink, next) => {
      const recorded = this.#recorded.get(request.record);
      if (recorded !== undefined && this.options.sendsTexts) recorded.input = request.body;
      return next(request, sink);
    },
  };

  async #handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    if (!this.options.appliesTo(request.model)) return await next(request, sink);
    const recorded: Recorded = { input: undefined };
    this.#recorded.set(request.record, recorded);
    request.record.wantsUsage = true;
    const startMs = this.options.now();
    const { sendsTexts, maxTextBytes, now } = this.options;
    const watched = new WatchedSink(sink, sendsTexts ? maxTextBytes : 0, now);
    const report = (status: string, isError: boolean) =>
      this.#report(request, recorded, { startMs, status, isError, watched });
    try {
      const ending = await next(request, watched);
      const isError = ending.kind === "broken" || (ending.kind === "answered" && ending.status >= 400);
      report(ending.kind === "answered" ? String(ending.status) : ending.kind, isError);
      return ending;
    } catch (thrown) {
      report((thrown as { readonly code?: string }).code ?? "failed", true);
      throw thrown;
    }
  }

  #report(
    { id, path, model, caller, body, record }: GatewayRequest,
    { input }: Recorded,
    { startMs, status, isError, watched }: Reported,
  ): void {
    const time = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
    const endMs = this.options.now();
    const metadata = {
      tenant: caller.tenant,
      key: caller.keyId,
      path,
      status,
      attempts: record.attempts.length,
      instance: record.attempts.at(-1)?.instance,
      ...Object.fromEntries(record.notes),
    };
    const shownInput = input === undefined ? undefined : this.#limited(input);
    const output = watched.output();
    const trace = {
      id,
      timestamp: time(startMs),
      name: path,
      userId: caller.keyId ?? (caller.tenant === "" ? undefined : caller.tenant),
      metadata,
      input: shownInput,
      output,
    };
    const generation = {
      id: `${id}-generation`,
      traceId: id,
      name: path,
      model,
      startTime: time(startMs),
      completionStartTime: time(watched.firstByteMs),
      endTime: time(endMs),
      modelParameters: Object.fromEntries(
        PARAMETERS.flatMap((name) => (isPlain(body[name]) ? [[name, body[name]]] : [])),
      ),
      usageDetails: usageOf(record),
      costDetails: costOf(record),
      level: isError ? "ERROR" : "DEFAULT",
      statusMessage: isError ? status : undefined,
      metadata,
      input: shownInput,
      output,
    };
    this.options.queue.push({ type: "trace-create", body: trace });
    this.options.queue.push({ type: "generation-create", body: generation });
  }

  /** The request's texts, or their beginning. */
  #limited(input: JsonObject): unknown {
    const { messages, prompt, input: items, system, instructions, tools } = input;
    const shown = { system, instructions, messages, prompt: ids(prompt), input: ids(items), tools };
    const json = JSON.stringify(shown);
    return json.length <= this.options.maxTextBytes ? shown : `${json.slice(0, this.options.maxTextBytes)}…`;
  }
}

interface Reported {
  readonly startMs: number;
  readonly status: string;
  readonly isError: boolean;
  readonly watched: WatchedSink;
}

const isPlain = (value: unknown): boolean =>
  typeof value === "number" || (typeof value === "string" && value.length <= 64);

const ids = (value: unknown): unknown => (value instanceof Int32Array ? `${value.length} token ids` : value);

/** Sums over all attempts; undefined if nothing was reported. */
function usageOf({ attempts }: RequestRecord): object | undefined {
  const sums = { input: 0, input_cached_tokens: 0, input_cache_creation: 0, output: 0, output_reasoning_tokens: 0 };
  const used = attempts.flatMap(({ usage }) => usage ?? []);
  for (const { fresh, cacheRead, cacheWrite, output, reasoning } of used) {
    sums.input += fresh;
    sums.input_cached_tokens += cacheRead;
    sums.input_cache_creation += cacheWrite;
    // Langfuse sums the details.
    sums.output += output - reasoning;
    sums.output_reasoning_tokens += reasoning;
  }
  return used.length === 0 ? undefined : sums;
}

/** Dollars; undefined if nothing has a price. */
function costOf({ attempts }: RequestRecord): object | undefined {
  const charges = attempts.flatMap(({ charge }) => charge ?? []);
  if (charges.length === 0) return undefined;
  return { total: Number(formatDollars(charges.reduce((sum, { nanoDollars }) => sum + nanoDollars, 0n))) };
}

/** Notes when the answer began, and keeps its beginning. */
class WatchedSink extends PassingSink {
  firstByteMs: number | undefined;
  #isEventStream = false;
  readonly #chunks: Buffer[] = [];
  #numBytes = 0;
  #isCut = false;

  constructor(
    next: AnswerSink,
    private readonly maxTextBytes: number,
    private readonly now: () => number,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.#isEventStream = head.isEventStream;
    super.begin(head);
  }

  override write(bytes: Buffer): boolean {
    this.#keep(bytes);
    return super.write(bytes);
  }

  override end(last?: Buffer): void {
    if (last !== undefined) this.#keep(last);
    super.end(last);
  }

  /** The answer's texts; undefined if they are not kept. */
  output(): unknown {
    if (this.maxTextBytes === 0 || this.#chunks.length === 0) return undefined;
    const text = Buffer.concat(this.#chunks).toString("utf8");
    const shown = this.#isEventStream ? streamedTexts(text) : wholeOutput(text);
    const json = typeof shown === "string" ? shown : JSON.stringify(shown);
    if (json.length <= this.maxTextBytes && !this.#isCut) return shown;
    return `${json.slice(0, this.maxTextBytes)}…`;
  }

  #keep(bytes: Buffer): void {
    this.firstByteMs ??= this.now();
    const room = this.maxTextBytes * EVENT_OVERHEAD - this.#numBytes;
    if (this.maxTextBytes === 0 || this.#isCut) return;
    this.#isCut = bytes.length > room;
    this.#chunks.push(bytes.subarray(0, room));
    this.#numBytes += Math.min(bytes.length, room);
  }
}

function wholeOutput(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    const { choices, output, content } = (value ?? {}) as JsonObject;
    return choices ?? output ?? content ?? value;
  } catch {
    return text;
  }
}
