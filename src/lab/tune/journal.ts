/** The trials of a tuning on disk, written after each one, so that an interrupted tuning resumes. */
import { z } from "zod";
import type { Finding } from "./bottleneck.js";
import { JournalFile } from "./journal-file.js";
import type { Baseline, Journal as Past, Trial } from "./loop.js";

export const findingSchema = z.object({ bottleneck: z.string(), because: z.string() });
export const estimateSchema = z
  .object({ value: z.number(), low: z.number().optional(), high: z.number().optional() })
  .loose();
const costSchema = z.object({
  perMillionOutput: z.number(),
  perMillionTotal: z.number(),
  perThousandRequests: z.number(),
});
export const baselineSchema = z.object({
  values: z.array(z.number()),
  ttftMs: z.number(),
  tpotMs: z.number(),
  costs: z.array(costSchema).optional(),
});
const trialSchema = z
  .object({
    proposal: z
      .object({
        name: z.string(),
        bottleneck: z.string(),
        predicted: z.number(),
        isLossy: z.boolean(),
        isExact: z.boolean(),
        edit: z.object({}).loose(),
      })
      .loose(),
    finding: findingSchema,
    outcome: z.enum(["kept", "rolled back"]),
    reason: z.string(),
    measured: estimateSchema.optional(),
    quality: z
      .object({
        verdict: z.string(),
        overall: z.object({ drop: z.number(), interval: z.array(z.number()), numItems: z.number() }).loose(),
      })
      .loose()
      .optional(),
    configuration: z.record(z.string(), z.string()),
  })
  .loose();
const results = z.object({
  first: findingSchema.optional(),
  baseline: baselineSchema.optional(),
  trials: z.array(trialSchema),
});

export class Journal implements Past {
  readonly #file: JournalFile<object>;
  readonly #trials: Trial[];
  #first: Finding | undefined;
  #baseline: Baseline | undefined;

  /** Like JournalFile, which throws invalid_option. */
  constructor(folder: string, settings: object, isResumed: boolean) {
    this.#file = new JournalFile<object>(
      folder,
      { name: "tune.json", format: "millrace-tune", version: 3, results },
      settings,
      isResumed,
    );
    // The schema covers the fields that the loop and the reports read.
    const past = (this.#file.past ?? { trials: [] }) as Past;
    this.#trials = [...past.trials];
    this.#first = past.first;
    this.#baseline = past.baseline;
    this.#save();
  }

  get trials(): readonly Trial[] {
    return this.#trials;
  }

  get first(): Finding | undefined {
    return this.#first;
  }

  get baseline(): Baseline | undefined {
    return this.#baseline;
  }

  /** The first finding and baseline stay. */
  begin(finding: Finding, baseline?: Baseline): void {
    if (this.#first !== undefined) return;
    this.#first = finding;
    this.#baseline = baseline;
    this.#save();
  }

  add(trial: Trial): void {
    this.#trials.push(trial);
    this.#save();
  }

  #save(): void {
    this.#file.save({ first: this.#first, baseline: this.#baseline, trials: this.#trials });
  }
}
