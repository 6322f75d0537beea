/** Shapes and cells of a comparison: one process measures a shape, and each figure taken from it is a cell. */

export interface Shape {
  readonly name: "prefill" | "decode" | "context";
  readonly promptTokens: number;
  readonly genTokens: number;
  /** Batch sizes; one process measures all of them, one after another. */
  readonly batches: readonly number[];
}

/** One batch size of a shape, as an engine measured it. */
export interface SpeedRow {
  readonly batch: number;
  readonly promptTokens: number;
  readonly genTokens: number;
  readonly prefillTokensPerS: number;
  readonly decodeTokensPerS: number;
}

export interface ShapeOptions {
  readonly prefillTokens: number;
  /** Tokens of prompt and output together at the end of the long decode. */
  readonly context: number;
  readonly decodePrompt: number;
  readonly genTokens: number;
  readonly batches: readonly number[];
}

/** The prefill shape generates a few tokens, since every tool needs some. */
const PREFILL_GEN_TOKENS = 4;

export function shapesOf(options: ShapeOptions): Shape[] {
  const { prefillTokens, context, decodePrompt, genTokens, batches } = options;
  return [
    { name: "prefill", promptTokens: prefillTokens, genTokens: PREFILL_GEN_TOKENS, batches: [1] },
    { name: "decode", promptTokens: decodePrompt, genTokens, batches },
    { name: "context", promptTokens: context - genTokens, genTokens, batches: [1] },
  ];
}

export interface Cell {
  readonly label: string;
  readonly batch: number;
  readonly measure: "prefillTokensPerS" | "decodeTokensPerS";
}

/** The figures taken from a shape. */
export function cellsOf(shape: Shape): Cell[] {
  if (shape.name === "prefill") {
    return [{ label: `prefill ${shape.promptTokens}`, batch: 1, measure: "prefillTokensPerS" }];
  }
  if (shape.name === "context") {
    const label = `decode at ${shape.promptTokens + shape.genTokens} tokens of context`;
    return [{ label, batch: 1, measure: "decodeTokensPerS" }];
  }
  return shape.batches.map((batch) => {
    const label = `decode, ${batch} sequence${batch === 1 ? "" : "s"}`;
    return { label, batch, measure: "decodeTokensPerS" as const };
  });
}
