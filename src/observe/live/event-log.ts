/**
 * Events of a server or a fleet, for the dashboard's time axis: the last ones in memory and, if requested, in a file of
 * bounded size.
 */
import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";

const EVENT_KINDS = ["start", "instance", "restart", "scale", "breaker", "reload", "canary", "alert"] as const;

export const eventSchema = z.object({
  at_ms: z.number().describe("Unix milliseconds"),
  kind: z.enum(EVENT_KINDS),
  text: z.string().max(500).describe("one sentence, without secrets or prompts"),
});

type ServerEvent = z.infer<typeof eventSchema>;
export type EventKind = ServerEvent["kind"];

/** Events to keep; the file has at most twice as many lines. */
const MOST_EVENTS = 500;
const MOST_FILE_BYTES = 2 * MOST_EVENTS * 2200;
const MOST_TEXT = 300;

export class EventLog {
  #events: readonly ServerEvent[] = [];
  #numLines = 0;
  #numAdded = 0;
  #hasProblem = false;

  /**
   * @param path a file that only this server writes; undefined: memory only
   * @param onProblem called once for each period in which the file cannot be written
   */
  constructor(
    private readonly path?: string,
    private readonly onProblem: (text: string) => void = () => {},
  ) {
    if (path === undefined) return;
    this.#events = readEvents(path).slice(-MOST_EVENTS);
    this.#keep(() => this.#rewrite(path));
  }

  add(kind: EventKind, text: string, atMs = Date.now()): void {
    const event = { at_ms: atMs, kind, text: text.slice(0, MOST_TEXT) };
    this.#events = [...this.#events, event].slice(-MOST_EVENTS);
    this.#numAdded++;
    const path = this.path;
    if (path === undefined) return;
    this.#keep(() => {
      if (this.#numLines >= 2 * MOST_EVENTS) return this.#rewrite(path);
      appendFileSync(path, lineOf(event));
      this.#numLines++;
    });
  }

  /** Oldest first. */
  since(ms: number, nowMs: number): readonly ServerEvent[] {
    return this.#events.filter(({ at_ms }) => at_ms > ms && at_ms <= nowMs);
  }

  /** The events since the last call. */
  takeNew(): readonly ServerEvent[] {
    const fresh = this.#numAdded === 0 ? [] : this.#events.slice(-this.#numAdded);
    this.#numAdded = 0;
    return fresh;
  }

  #rewrite(path: string): void {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.partial`, this.#events.map(lineOf).join(""), { mode: 0o600 });
    renameSync(`${path}.partial`, path);
    this.#numLines = this.#events.length;
  }

  /** A full disk must not end the server: the events stay in memory. */
  #keep(write: () => void): void {
    try {
      write();
      this.#hasProblem = false;
    } catch (thrown) {
      if (!this.#hasProblem) this.onProblem(`the dashboard's events were not written: ${(thrown as Error).message}`);
      this.#hasProblem = true;
    }
  }
}

const lineOf = (event: ServerEvent): string => `${JSON.stringify(event)}\n`;

/** Skips lines of another form, such as one that a kill cut short, and so all lines of a foreign file. */
function readEvents(path: string): ServerEvent[] {
  try {
    if (statSync(path).size > MOST_FILE_BYTES) return [];
    return readFileSync(path, "utf8").split("\n").flatMap(eventIn);
  } catch {
    return [];
  }
}

function eventIn(line: string): ServerEvent[] {
  try {
    return [eventSchema.parse(JSON.parse(line))];
  } catch {
    return [];
  }
}
