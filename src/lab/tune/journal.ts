/** The trials of a tuning on disk, written after each of them, so that an interrupted tuning goes on where it was. */
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { Finding } from "./bottleneck.js";
import type { Baseline, Journal as Past, Trial } from "./loop.js";

const FORMAT = "millrace-tune";
const VERSION = 3;

const findingSchema = z.object({ bottleneck: z.string(), because: z.string() });
const estimateSchema = z.object({ value: z.number(), low: z.number().optional(), high: z.number().optional() }).loose();
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
const savedSchema = z.object({
  format: z.literal(FORMAT),
  version: z.literal(VERSION),
  /** The trials hold for these only. */
  settings: z.unknown(),
  first: findingSchema.optional(),
  baseline: z.object({ values: z.array(z.number()), ttftMs: z.number(), tpotMs: z.number() }).optional(),
  trials: z.array(trialSchema),
});

export class Journal implements Past {
  readonly #path: string;
  readonly #settings: unknown;
  readonly #trials: Trial[];
  #first: Finding | undefined;
  #baseline: Baseline | undefined;

  /**
   * Without isResumed, an earlier tuning's journal is kept beside the new one.
   *
   * Throws invalid_option where there is no journal to resume, or one of another tuning, or something else.
   */
  constructor(folder: string, settings: object, isResumed: boolean) {
    mkdirSync(folder, { recursive: true });
    this.#path = join(folder, "tune.json");
    // As it is read back.
    this.#settings = JSON.parse(JSON.stringify(settings));
    const past: Past = isResumed ? this.#read() : { trials: [] };
    this.#trials = [...past.trials];
    this.#first = past.first;
    this.#baseline = past.baseline;
    if (!isResumed && existsSync(this.#path)) {
      const date = statSync(this.#path).mtime.toISOString().replaceAll(":", "-");
      renameSync(this.#path, join(folder, `tune-${date}.json`));
    }
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

  /** The first of these is kept. */
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

  /** The whole file or nothing: a kill while writing leaves the previous file. */
  #save(): void {
    const saved = {
      format: FORMAT,
      version: VERSION,
      settings: this.#settings,
      first: this.#first,
      baseline: this.#baseline,
      trials: this.#trials,
    };
    writeFileSync(`${this.#path}.partial`, `${JSON.stringify(saved)}\n`);
    renameSync(`${this.#path}.partial`, this.#path);
  }

  #read(): Past {
    if (!existsSync(this.#path)) {
      throw new MillraceError(
        "invalid_option",
        `expected the journal of a tuning to resume in ${this.#path}, got none`,
        {
          hint: "leave out --resume, or name its folder with --out",
        },
      );
    }
    let value: unknown;
    try {
      value = JSON.parse(readFileSync(this.#path, "utf8"));
    } catch {
      // Refused below, together with JSON of another shape.
    }
    const { success, data } = savedSchema.safeParse(value);
    if (!success) {
      throw new MillraceError(
        "invalid_option",
        `expected the journal of a tuning in ${this.#path}, got something else`,
        {
          hint: "leave out --resume, or give another --out",
        },
      );
    }
    // The schema holds the fields that the loop and the reports read.
    if (isDeepStrictEqual(data.settings, this.#settings)) return data as unknown as Past;
    throw new MillraceError("invalid_option", `expected --resume with the options of ${this.#path}, got others`, {
      hint: "repeat the first command as it was, or leave out --resume",
    });
  }
}
