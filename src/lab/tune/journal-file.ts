/** A file of a tuning's results, rewritten after each one. Only the same command reads it back. */
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join, parse } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";

interface JournalKind<T> {
  /** @example "tune.json" */
  readonly name: string;
  readonly format: string;
  readonly version: number;
  readonly results: z.ZodType<T>;
}

export class JournalFile<T extends object> {
  /** State of the resumed tuning; undefined: the tuning is new. */
  readonly past: T | undefined;
  readonly #path: string;
  readonly #settings: unknown;

  /**
   * Without isResumed, an earlier tuning's journal is kept beside the new one.
   *
   * Throws invalid_option if there is no journal to resume, or a file of another tuning or form.
   * @param settings that the results hold for
   */
  constructor(
    folder: string,
    private readonly kind: JournalKind<T>,
    settings: object,
    isResumed: boolean,
  ) {
    mkdirSync(folder, { recursive: true });
    this.#path = join(folder, kind.name);
    // The form after a round trip through JSON, so that both sides of the comparison have the same form.
    this.#settings = JSON.parse(JSON.stringify(settings));
    this.past = isResumed ? this.#read() : undefined;
    if (isResumed || !existsSync(this.#path)) return;
    const date = statSync(this.#path).mtime.toISOString().replaceAll(":", "-");
    const { name, ext } = parse(kind.name);
    renameSync(this.#path, join(folder, `${name}-${date}${ext}`));
  }

  /** The whole file or nothing: a kill while writing leaves the previous file. */
  save(results: T): void {
    const { format, version } = this.kind;
    writeFileSync(
      `${this.#path}.partial`,
      `${JSON.stringify({ format, version, settings: this.#settings, ...results })}\n`,
    );
    renameSync(`${this.#path}.partial`, this.#path);
  }

  #read(): T {
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
    const { format, version, results } = this.kind;
    const frame = z.object({ format: z.literal(format), version: z.literal(version), settings: z.unknown() });
    const [head, body] = [frame.safeParse(value), results.safeParse(value)];
    if (!head.success || !body.success) {
      throw new MillraceError(
        "invalid_option",
        `expected the journal of a tuning in ${this.#path}, got something else`,
        {
          hint: "leave out --resume, or give another --out",
        },
      );
    }
    if (isDeepStrictEqual(head.data.settings, this.#settings)) return body.data;
    throw new MillraceError("invalid_option", `expected --resume with the options of ${this.#path}, got others`, {
      hint: "repeat the first command as it was, or leave out --resume",
    });
  }
}
