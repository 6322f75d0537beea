/**
 * The largest magnitude of each column of a matrix's input over the user's texts: the range for rounding inputs with a
 * fixed scale.
 */
import { setImmediate } from "node:timers/promises";
import type { StartStage } from "../core/stages.js";
import { ActivationMeter } from "../engine/activation-meter.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import type { Recall } from "./journal.js";
import { tensorScale } from "./scales.js";

interface PeakSettings {
  /** The original's path. */
  readonly model: string;
  /** Token ids; each text fits into the context. */
  readonly texts: readonly (readonly number[])[];
  readonly numThreads: number;
  readonly recall: Recall;
}

export class InputPeaks {
  /** @param largest f32 [cols] by the matrix's name, without `.weight` */
  constructor(private readonly largest: ReadonlyMap<string, Float32Array>) {}

  /**
   * Measured only once, even if the journal's run stops often.
   * @throws errors of opening a model
   */
  static async of(
    { model: modelPath, texts, numThreads, recall }: PeakSettings,
    startStage: StartStage,
    signal: AbortSignal,
  ): Promise<InputPeaks> {
    const measured = await recall("largest inputs", async () => {
      const stage = startStage("ranges of inputs");
      const maxModelLen = texts.reduce((most, { length }) => Math.max(most, length), 0);
      const meter = await ActivationMeter.open({ ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads, maxModelLen });
      try {
        const found = await meter.largest(texts, async (numTexts) => {
          await setImmediate();
          signal.throwIfAborted();
          stage.update(`${numTexts} of ${texts.length} texts`);
        });
        stage.done(`${texts.length} texts`);
        return found.map(({ names, largest: { buffer } }) => [names, Buffer.from(buffer).toString("base64")] as const);
      } finally {
        meter.close();
      }
    });
    const largest = measured.flatMap(([names, text]) => {
      const bytes = Buffer.from(text, "base64");
      const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
      return names.map((name) => [name, values] as const);
    });
    return new InputPeaks(new Map(largest));
  }

  /**
   * E4M3's scale of a matrix's input; 1 if no text used the matrix.
   * @param name with or without `.weight` @param factors factors by which the input's columns were divided
   */
  scaleOf(name: string, factors?: Float32Array): number {
    const largest = this.largest.get(name.replace(/\.weight$/, ""));
    if (largest === undefined) throw new RangeError(`expected the range of the input of ${name}, got none`);
    return tensorScale(factors === undefined ? largest : largest.map((value, col) => value / factors[col]!));
  }
}
