/** Checks the input of a batch line by line before any line runs, and makes its index. */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { MAX_EMBEDDING_INPUTS, MAX_LISTED_FAULTS } from "./limits.js";
import { LineIndex } from "./line-index.js";
import { everyLineOf, isBlank, type Line } from "./lines.js";
import { LineError, type LineFaultCode, type LineRequest, type LineTerms, readLine } from "./read-line.js";
import type { LineFault } from "./record.js";

export interface InputLimits {
  readonly maxBytes: number;
  readonly maxLines: number;
  readonly maxLineBytes: number;
}

interface CheckedInput {
  readonly index: LineIndex;
  /** The models that the index refers to. */
  readonly models: readonly string[];
  /** At most MAX_LISTED_FAULTS; empty: the input may run. */
  readonly faults: readonly LineFault[];
}

/** The main thread works on an input this long, then on other things as long. */
const WORK_MS = 2;
/** Longer ids are kept as hashes, so that 50,000 of them stay small. */
const MAX_KEPT_ID_CHARS = 44;

/** @param signal ends the check with its reason */
export async function checkInput(
  path: string,
  terms: LineTerms,
  limits: InputLimits,
  signal?: AbortSignal,
): Promise<CheckedInput> {
  const check = new InputCheck(terms, limits);
  const handle = await open(path, "r");
  try {
    const { size } = await handle.stat();
    if (size > limits.maxBytes) {
      return check.failed("file_too_large", `expected at most ${limits.maxBytes} bytes, got ${size}`);
    }
    let sinceMs = performance.now();
    for await (const line of everyLineOf(handle, limits.maxLineBytes)) {
      signal?.throwIfAborted();
      if (!isBlank(line)) await check.line(line);
      else if (line.number > 2 * limits.maxLines) {
        return check.failed(
          "too_many_tasks",
          `expected at most ${2 * limits.maxLines} lines with blank ones, got more`,
        );
      }
      if (check.isHopeless) break;
      if (performance.now() - sinceMs < WORK_MS) continue;
      await wait(WORK_MS);
      sinceMs = performance.now();
    }
    return check.result();
  } finally {
    await handle.close();
  }
}

class InputCheck {
  readonly #index = new LineIndex();
  readonly #models = new Map<string, number>();
  readonly #ids = new Set<string>();
  readonly #faults: LineFault[] = [];
  #numInputs = 0;

  constructor(
    private readonly terms: LineTerms,
    private readonly limits: InputLimits,
  ) {}

  /** Whether the check can stop: it has enough faults, or the input has too many lines. */
  get isHopeless(): boolean {
    return this.#faults.length >= MAX_LISTED_FAULTS || this.#index.length > this.limits.maxLines;
  }

  async line({ number, offset, length, bytes }: Line): Promise<void> {
    const { maxLines, maxLineBytes } = this.limits;
    try {
      if (bytes === undefined) {
        throw new LineError("line_too_long", `expected at most ${maxLineBytes} bytes, got ${length}`);
      }
      const line = await readLine(bytes, this.terms);
      this.#takeId(line.customId);
      this.#countInputs(line);
      this.#index.add(offset, length, number, this.#numberOf(line.model));
      if (this.#index.length > maxLines) {
        throw new LineError("too_many_tasks", `expected at most ${maxLines} lines, got more`);
      }
    } catch (thrown) {
      if (!(thrown instanceof LineError)) throw thrown;
      this.#faults.push({ code: thrown.code, line: number, message: thrown.message, param: thrown.param });
    }
  }

  result(): CheckedInput {
    if (this.#index.length === 0 && this.#faults.length === 0) {
      return this.failed("empty_file", "expected at least one line, got none");
    }
    return { index: this.#index, models: [...this.#models.keys()], faults: this.#faults };
  }

  failed(code: LineFaultCode, message: string): CheckedInput {
    return { index: this.#index, models: [], faults: [{ code, line: null, message, param: null }] };
  }

  #takeId(id: string): void {
    const kept = id.length <= MAX_KEPT_ID_CHARS ? id : `#${createHash("sha256").update(id).digest("base64")}`;
    if (!this.#ids.has(kept)) {
      this.#ids.add(kept);
      return;
    }
    const message = `expected each custom_id once, got ${JSON.stringify(id.slice(0, 80))} again`;
    throw new LineError("duplicate_custom_id", message, "custom_id");
  }

  #countInputs({ body }: LineRequest): void {
    if (this.terms.endpoint !== "/v1/embeddings") return;
    const { input } = body;
    const isList = Array.isArray(input) && typeof input[0] !== "number";
    this.#numInputs += isList ? (input as unknown[]).length : 1;
    if (this.#numInputs <= MAX_EMBEDDING_INPUTS) return;
    const message = `expected at most ${MAX_EMBEDDING_INPUTS} inputs over all lines, got more`;
    throw new LineError("too_many_inputs", message, "body.input");
  }

  #numberOf(model: string): number {
    const known = this.#models.get(model) ?? this.#models.size;
    this.#models.set(model, known);
    return known;
  }
}
