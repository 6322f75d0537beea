/** Mean squares of what enters a model's matrices, column by column, over given texts: how much an error in a column's weights matters. */
import type { AnyWeight, Backend } from "../backend/backend.js";
import type { BufferHandle } from "../backend/handles.js";
import { queryWidth } from "../model/description/sizes.js";
import type { OpenModel } from "../model/open-model.js";
import type { EngineOptions } from "./api/options.js";
import type { DenseWeights, LayerWeights } from "./blocks/weights.js";
import type { EngineParts } from "./engine-parts.js";
import { openAlone, wholeText } from "./lone-model.js";
import { computeText } from "./rehearsal.js";

/** An input of one product or of several. */
interface MeteredInput {
  /** llama.cpp's names, without `.weight`, of the matrices that it is multiplied with. */
  readonly names: readonly string[];
  readonly cols: number;
  readonly sums: BufferHandle;
  /** Rows of the input for each token. */
  readonly rowsPerToken: number;
}

export interface MeasuredInput {
  readonly names: readonly string[];
  /** f64 [cols] */
  readonly sums: Float64Array;
  readonly numRows: number;
}

export class ActivationMeter {
  /** Longest text, in tokens. */
  readonly contextLength: number;
  readonly #inputs: readonly MeteredInput[];
  #numTokens = 0;

  /** Rejects with the errors of opening a model. */
  static async open(options: EngineOptions): Promise<ActivationMeter> {
    const { model, parts, backend } = await openAlone(options);
    return new ActivationMeter(model, parts, backend);
  }

  private constructor(
    { config }: OpenModel,
    private readonly parts: EngineParts,
    private readonly backend: Backend,
  ) {
    const { weights, transformer, info } = parts;
    this.contextLength = info.maxModelLen;
    const meters = new Map<AnyWeight, BufferHandle>();
    const width = transformer.width;
    this.#inputs = weights.layers.flatMap((layer, index) =>
      inputsOf(layer, width, queryWidth(config.layers[index]!)).map(({ first, names, cols, rowsPerToken = 1 }) => {
        const sums = backend.allocate(8 * cols);
        meters.set(first, sums);
        return { names: names.map((name) => `blk.${index}.${name}`), cols, sums, rowsPerToken };
      }),
    );
    transformer.meterInputs(meters);
  }

  /** @param ids a text within the context */
  async add(ids: readonly number[]): Promise<void> {
    await computeText(this.parts, wholeText(ids), Number.POSITIVE_INFINITY, async () => {});
    this.#numTokens += ids.length;
  }

  async read(): Promise<readonly MeasuredInput[]> {
    const measured: MeasuredInput[] = [];
    for (const { names, cols, sums: buffer, rowsPerToken } of this.#inputs) {
      const sums = new Float64Array(cols);
      await this.backend.read(buffer, 0, sums);
      measured.push({ names, sums, numRows: this.#numTokens * rowsPerToken });
    }
    return measured;
  }

  close(): void {
    this.parts.constraints.close();
    this.backend.destroy();
  }
}

interface LayerInput {
  /** The matrix that the input is multiplied with first. */
  readonly first: AnyWeight;
  readonly names: readonly string[];
  readonly cols: number;
  readonly rowsPerToken?: number;
}

/** The inputs of a layer's products, and every name that files have for the matrices behind them. */
function inputsOf(layer: LayerWeights, width: number, headsWidth: number): readonly LayerInput[] {
  const { query, attentionOutput, feedForward } = layer;
  const attention = [
    { first: query.weight, names: ["attn_q", "attn_k", "attn_v", "attn_qkv"], cols: width },
    { first: attentionOutput.weight, names: ["attn_output"], cols: headsWidth },
  ];
  if (feedForward.kind === "dense") return [...attention, ...denseInputs(feedForward, width, "")];
  const { gates, downs, part, shared } = feedForward;
  return [
    ...attention,
    { first: gates.weights, names: ["ffn_gate_exps", "ffn_up_exps"], cols: width },
    { first: downs.weights, names: ["ffn_down_exps"], cols: part.width, rowsPerToken: part.active },
    ...(shared === undefined ? [] : denseInputs(shared, width, "_shexp")),
  ];
}

function denseInputs({ gate, up, down, width: inner }: DenseWeights, width: number, end: string): LayerInput[] {
  return [
    { first: (gate ?? up).weight, names: [`ffn_gate${end}`, `ffn_up${end}`], cols: width },
    { first: down.weight, names: [`ffn_down${end}`], cols: inner },
  ];
}
