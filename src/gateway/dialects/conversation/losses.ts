/**
 * The parts of a request that its provider cannot express. The configuration decides whether they are refused, or left
 * out and listed.
 */
import { MillraceError } from "../../../core/errors.js";
import type { Extra } from "./conversation.js";

/** The header that lists the left-out fields of a request. */
export const DROPPED_HEADER = "x-millrace-dropped-params";

/** A longer list would make the header long. */
const MAX_LISTED = 32;
/** A client's name for a field may contain characters that a header cannot. */
const NAME = /^[\w.[\]-]{1,80}$/;

export class Losses {
  readonly #dropped = new Set<string>();

  /**
   * @param provider for the message
   * @param dropsParams whether fields that would change the answer are left out rather than refused
   */
  constructor(
    private readonly provider: string,
    private readonly dropsParams: boolean,
  ) {}

  /** Names of the fields that were left out. */
  get dropped(): readonly string[] {
    return [...this.#dropped].filter((name) => NAME.test(name)).slice(0, MAX_LISTED);
  }

  /** Takes a field that the provider lacks and the answer depends on. Throws unless such fields are to be left out. */
  lacks(param: string, what = `no ${param}`): void {
    if (!this.dropsParams) {
      throw new MillraceError(
        "unsupported_field",
        `expected ${what} for ${this.provider}, got one it has no equivalent of`,
        {
          param,
          hint: "leave it out; the operator's `drop-params: true` leaves it out for all requests",
        },
      );
    }
    this.#dropped.add(param);
  }

  /** Takes a field that the provider lacks and the answer does not depend on. */
  ignores(param: string): void {
    this.#dropped.add(param);
  }

  /** Refuses an essential part of the conversation that the provider lacks: nothing can be left out. */
  cannot(param: string, what: string, got: string): never {
    throw new MillraceError("unsupported_field", `expected ${what} for ${this.provider}, got ${got}`, { param });
  }

  take(extras: readonly Extra[]): void {
    for (const { param, isHint } of extras) {
      if (isHint) this.ignores(param);
      else this.lacks(param);
    }
  }
}
