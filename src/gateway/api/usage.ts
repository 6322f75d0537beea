/** Reads token counts from the bytes of an answer as they pass. They are near the end in every API; Anthropic's streams have the prompt's at the beginning. */

export interface TokenUsage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

const KEPT_BYTES = 4096;
/** Matches an object that may contain flat objects. Quotes inside JSON strings are escaped, so generated text cannot match it. */
const USAGE = /"usage":\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/g;
const NOTHING = Buffer.alloc(0);

export class UsageReader {
  #head: Buffer = NOTHING;
  #tail: Buffer = NOTHING;

  push(chunk: Buffer): void {
    if (this.#head.length < KEPT_BYTES) {
      this.#head = Buffer.concat([this.#head, chunk.subarray(0, KEPT_BYTES - this.#head.length)]);
    }
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-KEPT_BYTES)]).subarray(-KEPT_BYTES);
  }

  /** @returns undefined if the answer has no counts, as in a stream that was not asked for them */
  read(): TokenUsage | undefined {
    const last = usagesIn(this.#tail).at(-1);
    if (last === undefined) return undefined;
    const first = usagesIn(this.#head)[0];
    return {
      inputTokens: count(last.prompt_tokens) ?? count(last.input_tokens) ?? count(first?.input_tokens),
      outputTokens: count(last.completion_tokens) ?? count(last.output_tokens),
    };
  }
}

function usagesIn(bytes: Buffer): Readonly<Record<string, unknown>>[] {
  return [...bytes.toString("utf8").matchAll(USAGE)].flatMap(([, json]) => {
    try {
      return [JSON.parse(json!)];
    } catch {
      return [];
    }
  });
}

const count = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
