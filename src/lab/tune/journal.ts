/** The trials of a tuning on disk, written after each of them, so that an interrupted tuning goes on where it was. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { MillraceError } from "../../core/errors.js";
import type { Trial } from "./loop.js";

const FORMAT = "millrace-tune";
const VERSION = 1;

interface Saved {
  readonly format: typeof FORMAT;
  readonly version: typeof VERSION;
  /** The trials hold for these only. */
  readonly settings: unknown;
  readonly trials: readonly Trial[];
}

export class Journal {
  readonly #path: string;
  readonly #settings: unknown;
  readonly #trials: Trial[];

  /** Throws invalid_option where the journal to resume is missing or of another tuning. */
  constructor(folder: string, settings: object, isResumed: boolean) {
    mkdirSync(folder, { recursive: true });
    this.#path = join(folder, "tune.json");
    // As it is read back.
    this.#settings = JSON.parse(JSON.stringify(settings));
    this.#trials = isResumed ? [...this.#read()] : [];
    this.#save();
  }

  get trials(): readonly Trial[] {
    return this.#trials;
  }

  add(trial: Trial): void {
    this.#trials.push(trial);
    this.#save();
  }

  /** The whole file or nothing: a kill while writing leaves the previous file. */
  #save(): void {
    const saved: Saved = { format: FORMAT, version: VERSION, settings: this.#settings, trials: this.#trials };
    writeFileSync(`${this.#path}.partial`, `${JSON.stringify(saved)}\n`);
    renameSync(`${this.#path}.partial`, this.#path);
  }

  #read(): readonly Trial[] {
    if (!existsSync(this.#path)) return [];
    let saved: Partial<Saved> = {};
    try {
      saved = JSON.parse(readFileSync(this.#path, "utf8")) as Partial<Saved>;
    } catch {
      // Refused below, together with JSON of another shape.
    }
    if (saved.format !== FORMAT || saved.version !== VERSION || !Array.isArray(saved.trials)) {
      throw new MillraceError(
        "invalid_option",
        `expected the journal of a tuning in ${this.#path}, got something else`,
        {
          hint: "leave out --resume, or give another --out",
        },
      );
    }
    if (isDeepStrictEqual(saved.settings, this.#settings)) return saved.trials;
    throw new MillraceError("invalid_option", `expected --resume with the options of ${this.#path}, got others`, {
      hint: "repeat the first command as it was, or leave out --resume",
    });
  }
}
