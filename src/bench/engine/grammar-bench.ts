/**
 * Measures grammars in the engine's own grammar thread: compile times, and the time to compute a mask for each token.
 */
import { MillraceError } from "../../core/errors.js";
import { type Summary, summarize } from "../../core/statistics.js";
import { GrammarService } from "../../engine/constraint/grammar-service.js";
import type { FromGrammarThread } from "../../engine/constraint/messages.js";
import { readTokenBytes, type TokenBytes } from "../../engine/constraint/token-bytes.js";

const TIMEOUT_MS = 60_000;
const SLICE_MS = 5;
const SLOT = 0;

export interface GrammarCase {
  readonly name: string;
  /** The grammar's recipe; it differs in each round, because a known recipe is not compiled again. */
  recipeOf(round: number): string;
  /** A text that the grammar allows; a mask is measured for each of its tokens. */
  readonly answer: string;
}

export interface GrammarBenchResult {
  readonly name: string;
  readonly numTokens: number;
  readonly compileMs: Summary;
  /** Time from the request for a mask to the mask, over all tokens and rounds. */
  readonly maskMs: Summary & { readonly p90: number };
}

export interface GrammarBenchReport {
  readonly vocabSize: number;
  /** Time until the thread has read the vocabulary. */
  readonly startMs: number;
  readonly results: readonly GrammarBenchResult[];
}

/**
 * @param modelPath the model with the tokenizer to use
 * @param trivial a recipe that compiles immediately
 */
export function benchGrammars(
  modelPath: string,
  trivial: string,
  cases: readonly GrammarCase[],
  rounds: number,
): GrammarBenchReport {
  const tokens = readTokenBytes(modelPath);
  const vocabSize = tokens.bytes.length;
  const shape = { numSlots: 1, masksPerSlot: 1, vocabSize };
  const news = new Int32Array(new SharedArrayBuffer(4));
  const service = new GrammarService(modelPath, shape, TIMEOUT_MS, news);
  try {
    const client = new GrammarClient(service, tokens, news);
    const startMs = timeOf(() => client.open(trivial));
    const tokenIds = cases.map(({ answer }) => longestTokens(tokens, answer));
    const samples = cases.map(() => ({ compile: [] as number[], masks: [] as number[] }));
    for (let round = 0; round < rounds; round++) {
      cases.forEach(({ recipeOf }, i) => {
        samples[i]!.compile.push(client.open(recipeOf(round)));
        for (const ms of client.masks(tokenIds[i]!)) samples[i]!.masks.push(ms);
      });
    }
    const results = cases.map(({ name }, i) => {
      const { compile, masks } = samples[i]!;
      const p90 = [...masks].sort((a, b) => a - b)[Math.floor(0.9 * (masks.length - 1))]!;
      return {
        name,
        numTokens: tokenIds[i]!.length,
        compileMs: summarize(compile),
        maskMs: { ...summarize(masks), p90 },
      };
    });
    return { vocabSize, startMs, results };
  } finally {
    service.stop();
  }
}

class GrammarClient {
  #requestId = 0;
  #ticket = 0;

  constructor(
    private readonly service: GrammarService,
    private readonly tokens: TokenBytes,
    private readonly news: Int32Array,
  ) {}

  /** @returns the compile time that the thread measured, in milliseconds */
  open(recipe: string): number {
    const requestId = ++this.#requestId;
    const stopTokenIds = [...this.tokens.stopIds];
    this.service.send({ kind: "open", requestId, key: recipe, recipe, stopTokenIds, tokenIds: [] });
    const answer = this.#await((messages) => messages.find((message) => message.requestId === requestId));
    if (answer.kind === "opened") return answer.compileMs;
    throw new MillraceError("invalid_grammar", answer.problem);
  }

  /** @returns for each token the time of its mask, after the previous token was accepted, in milliseconds */
  masks(tokenIds: readonly number[]): number[] {
    const requestId = this.#requestId;
    const { memory } = this.service;
    const times = tokenIds.map((_, i) =>
      timeOf(() => {
        const ticket = ++this.#ticket;
        const accepted = tokenIds.slice(Math.max(0, i - 1), i);
        const rest = { slot: SLOT, ticket, tokenIds: accepted, hasFirst: false, draft: [] };
        this.service.send({ kind: "masks", requestId, ...rest });
        this.#await(() => (memory.ticket(SLOT) === ticket ? true : undefined));
      }),
    );
    this.service.send({ kind: "close", requestId });
    return times;
  }

  #await<T>(find: (messages: readonly FromGrammarThread[]) => T | undefined): T {
    for (;;) {
      const seen = Atomics.load(this.news, 0);
      const { messages, lost } = this.service.poll();
      const found = find(messages);
      if (found !== undefined) return found;
      const problem = lost?.problem ?? messages.find((message) => message.kind === "failed")?.problem;
      if (problem !== undefined) throw new MillraceError("grammar_failed", problem);
      Atomics.wait(this.news, 0, seen, SLICE_MS);
    }
  }
}

function timeOf(run: () => void): number {
  const startMs = performance.now();
  run();
  return performance.now() - startMs;
}

/**
 * Splits a text greedily into the longest tokens. The result is close to the tokenizer's, and the grammar always allows
 * it.
 */
function longestTokens({ bytes }: TokenBytes, text: string): number[] {
  const idByText = new Map(bytes.map((token, id) => [Buffer.from(token).toString("latin1"), id]));
  const rest = Buffer.from(text).toString("latin1");
  const ids: number[] = [];
  for (let at = 0; at < rest.length; ) {
    let length = Math.min(32, rest.length - at);
    while (length > 1 && !idByText.has(rest.slice(at, at + length))) length--;
    const id = idByText.get(rest.slice(at, at + length));
    if (id === undefined) throw new MillraceError("grammar_failed", `expected tokens for ${JSON.stringify(text)}`);
    ids.push(id);
    at += length;
  }
  return ids;
}
