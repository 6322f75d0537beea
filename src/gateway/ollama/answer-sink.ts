/**
 * Turns an answer of OpenAI's API into one of Ollama's on its way to the client: events into lines, a whole answer into
 * its object.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import { Pieces } from "../../core/pieces.js";
import { readArguments } from "../../text/answer/read-arguments.js";
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";
import { EventReader } from "../dialects/wire/sse.js";

/** Content of each line: a chat's message, or the text of a completion. */
export type LineShape = (news: {
  readonly content: string;
  readonly thinking: string;
  readonly calls: readonly object[];
}) => object;

/** Makes an answer's object from its parts. */
export interface AnswerShapes {
  readonly line: LineShape;
  readonly vectors: (embeddings: readonly unknown[], counts: object) => object;
}

interface Call {
  readonly id: unknown;
  name: string;
  arguments: string;
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  /** Dollars, if the gateway knows the cost. */
  readonly cost?: number;
}

interface Choice {
  readonly delta?: Message;
  readonly message?: Message;
  /** Text of a completion. */
  readonly text?: string;
  readonly finish_reason?: string | null;
  readonly logprobs?: { readonly content?: readonly object[] | null } | null;
}

interface Message {
  readonly content?: string | null;
  readonly reasoning?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly {
    readonly index?: number;
    readonly id?: unknown;
    readonly function?: { readonly name?: string; readonly arguments?: string };
  }[];
}

interface Answer {
  readonly model?: string;
  readonly choices?: readonly Choice[];
  readonly usage?: Usage | null;
  readonly data?: readonly { readonly embedding?: unknown }[];
  readonly error?: { readonly message?: string; readonly code?: string };
}

const NDJSON = "application/x-ndjson";
const MAX_WHOLE_BYTES = 64 * 2 ** 20;
const MAX_CALLS = 1024;

export class OllamaSink extends PassingSink {
  readonly #events = new EventReader();
  readonly #held = new Pieces();
  readonly #calls: Call[] = [];
  /** Log-probabilities that no line has sent yet: Ollama's form of a token is that of OpenAI's chats. */
  #scored: object[] = [];
  #head: AnswerHead | undefined;
  #firstAtMs: number | undefined;
  #finish: string | undefined;
  #usage: Usage = {};
  #isOver = false;

  /** @param startMs `performance.now()` at the request's arrival */
  constructor(
    next: AnswerSink,
    private readonly shapes: AnswerShapes,
    private readonly model: string,
    private readonly startMs: number,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.#head = head;
    if (!head.isEventStream) return;
    super.begin({ ...head, headers: headersOf(head, NDJSON) });
  }

  override write(bytes: Buffer): boolean {
    if (this.#isOver) return true;
    if (this.#head?.isEventStream !== true) {
      if (this.#held.numBytes + bytes.length > MAX_WHOLE_BYTES) this.breakOff(unreadable("one of at most 64 MiB"));
      else this.#held.push(bytes);
      return true;
    }
    const lines: object[] = [];
    try {
      this.#events.push(bytes, ({ data }) => this.#event(data, lines));
    } catch (thrown) {
      this.breakOff(thrown instanceof MillraceError ? thrown : unreadable("events in JSON"));
      return true;
    }
    return lines.length === 0 || super.write(linesOf(lines));
  }

  override end(last?: Buffer): void {
    if (last !== undefined && last.length > 0) this.write(last);
    if (this.#isOver) return;
    if (this.#head?.isEventStream === true) {
      this.#isOver = true;
      const calls =
        this.#calls.length === 0 ? [] : [this.#line({ content: "", thinking: "", calls: this.#callObjects() })];
      super.end(
        linesOf([...calls, { ...this.#line({ content: "", thinking: "", calls: [] }), ...this.#lastFields() }]),
      );
      return;
    }
    this.#endWhole();
  }

  override breakOff(error: MillraceError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    // A whole answer that has not begun for the client begins here, so that its connection is cut.
    if (this.#head?.isEventStream === false) super.begin(this.#head);
    super.breakOff(error);
  }

  #endWhole(): void {
    const head = this.#head!;
    let body: object;
    try {
      const answer = JSON.parse(this.#held.take().toString("utf8")) as Answer;
      body = head.status === 200 ? this.#whole(answer) : errorOf(answer);
    } catch {
      if (head.status === 200) {
        this.breakOff(unreadable("a whole object in JSON"));
        return;
      }
      body = errorOf({});
    }
    this.#isOver = true;
    super.begin({ ...head, headers: headersOf(head, "application/json; charset=utf-8") });
    super.end(Buffer.from(JSON.stringify(body)));
  }

  #whole(answer: Answer): object {
    this.#usage = answer.usage ?? {};
    if (answer.data !== undefined) {
      const embeddings = answer.data.map(({ embedding }) => embedding);
      const total_duration = nanoseconds(performance.now() - this.startMs);
      const prompt_eval_count = this.#usage.prompt_tokens ?? 0;
      const counts = { total_duration, load_duration: 0, prompt_eval_count };
      return { model: this.model, ...this.shapes.vectors(embeddings, counts) };
    }
    const [choice = {}] = answer.choices ?? [];
    this.#finish = choice.finish_reason ?? undefined;
    const { message = {}, text } = choice;
    this.#addCalls(message);
    this.#addScored(choice);
    const news = { content: message.content ?? text ?? "", thinking: thoughtsOf(message), calls: this.#callObjects() };
    return { ...this.#line(news), ...this.#lastFields() };
  }

  #event(data: string, lines: object[]): void {
    if (data === "[DONE]") return;
    const { choices = [], usage, error } = JSON.parse(data) as Answer;
    if (error !== undefined) {
      throw new MillraceError("upstream_failed", `expected the answer to go on, got an error: ${error.message ?? ""}`);
    }
    if (usage != null) this.#usage = usage;
    const [choice] = choices;
    if (choice === undefined) return;
    const { delta = {}, text, finish_reason: finish } = choice;
    this.#finish = finish ?? this.#finish;
    this.#addCalls(delta);
    this.#addScored(choice);
    const news = { content: delta.content ?? text ?? "", thinking: thoughtsOf(delta), calls: [] };
    if (news.content === "" && news.thinking === "") return;
    this.#firstAtMs ??= performance.now();
    lines.push(this.#line(news));
  }

  #addCalls({ tool_calls: calls = [] }: Message): void {
    for (const [i, { index = i, id, function: more }] of calls.entries()) {
      if (!Number.isInteger(index) || index < 0 || index >= MAX_CALLS) throw unreadable("calls that are numbered");
      const call = this.#calls[index] ?? { id, name: "", arguments: "" };
      this.#calls[index] = call;
      call.name += more?.name ?? "";
      call.arguments += more?.arguments ?? "";
    }
  }

  #addScored({ logprobs }: Choice): void {
    for (const token of logprobs?.content ?? []) this.#scored.push(token);
  }

  /** Calls are sent whole, since their arguments are objects. */
  #callObjects(): readonly object[] {
    const calls = this.#calls.filter((call) => call !== undefined);
    return calls.map(({ id, name, arguments: text }, index) => ({
      ...(typeof id === "string" ? { id } : {}),
      function: { index, name, arguments: readArguments(text) },
    }));
  }

  #line(news: Parameters<LineShape>[0]): object {
    const scored = this.#scored.length === 0 ? {} : { logprobs: this.#scored };
    this.#scored = [];
    const created_at = new Date().toISOString();
    return { model: this.model, created_at, ...this.shapes.line(news), ...scored, done: false };
  }

  /**
   * Ollama's times, in nanoseconds, as the gateway measures them: a prompt's time in a queue counts as its own. A whole
   * answer shows no first token, so both parts are the whole time: clients divide counts of tokens by them.
   */
  #lastFields(): object {
    const { cost } = this.#usage;
    const endMs = performance.now();
    const promptEndMs = this.#firstAtMs ?? endMs;
    const answerStartMs = this.#firstAtMs ?? this.startMs;
    return {
      done: true,
      done_reason: this.#finish === "length" ? "length" : "stop",
      total_duration: nanoseconds(endMs - this.startMs),
      load_duration: 0,
      prompt_eval_count: this.#usage.prompt_tokens ?? 0,
      prompt_eval_duration: nanoseconds(promptEndMs - this.startMs),
      eval_count: this.#usage.completion_tokens ?? 0,
      eval_duration: nanoseconds(endMs - answerStartMs),
      ...(cost === undefined ? {} : { cost }),
    };
  }
}

const nanoseconds = (ms: number): number => Math.round(ms * 1e6);
const linesOf = (lines: readonly object[]): Buffer =>
  Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
const thoughtsOf = ({ reasoning, reasoning_content: other }: Message): string => reasoning ?? other ?? "";

/** The answer's length changes. */
function headersOf({ headers }: AnswerHead, type: string): OutgoingHttpHeaders {
  const { "content-length": _length, ...rest } = headers;
  return { ...rest, "content-type": type };
}

function errorOf({ error }: Answer): object {
  return { error: error?.message ?? "the upstream refused the request", code: error?.code ?? "upstream_failed" };
}

function unreadable(expected: string): MillraceError {
  return new MillraceError("upstream_failed", `expected an answer of the upstream with ${expected}, got another`);
}
