/**
 * A server's last requests with the times of their parts, for the inspector. Texts of prompts and answers are never
 * kept.
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { listBody } from "../../core/list-body.js";

/**
 * running: no answer is complete yet; answered: the client got a complete answer; broken: the answer broke off after
 * its
 * first byte; failed: the client got an error; cancelled: the client left.
 */
const OUTCOMES = ["running", "answered", "broken", "failed", "cancelled"] as const;

const count = z.int().nonnegative().optional();
const milliseconds = z.number().optional();

/** A request in GET /watch/requests. Facts that the server does not know are absent. */
const requestRow = z.object({
  id: z.string(),
  at_ms: z.number().describe("when the request came, in Unix milliseconds"),
  path: z.string(),
  model: z.string(),
  tenant: z.string(),
  instance: z.string().optional().describe("of a fleet: the instance that answered"),
  outcome: z.enum(OUTCOMES),
  status: z.int().optional().describe("of HTTP"),
  error_code: z.string().optional(),
  finish_reason: z.string().optional(),
  prompt_tokens: count,
  cached_tokens: count.describe("of the prompt, found in the prefix cache"),
  output_tokens: count,
  draft_tokens: count.describe("of the output, drafted and accepted"),
  policies_ms: milliseconds.describe("in the gateway's policies"),
  routing_ms: milliseconds.describe("until an instance had the request: waiting for a seat, and attempts that failed"),
  prepare_ms: milliseconds.describe("reading the body, making the prompt"),
  queue_ms: milliseconds.describe("in the engine's queue"),
  prefill_ms: milliseconds.describe("from the queue to the first token"),
  decode_ms: milliseconds.describe("from the first token to the last"),
  ttft_ms: milliseconds.describe("from the request to its first token"),
  tpot_ms: milliseconds.describe("per token after the first, of the longest answer"),
  total_ms: milliseconds.describe("from the request to the end of its answer, or until now"),
  retries: z
    .array(z.object({ instance: z.string(), reason: z.string() }))
    .optional()
    .describe("instances that did not take the request"),
});

export type RequestRow = z.output<typeof requestRow>;
export type Outcome = RequestRow["outcome"];

export const requestRows = z.object({
  object: z.literal("list"),
  data: z.array(requestRow).describe("the newest first"),
  kept: z.int().describe("the number of requests that are remembered at most"),
});

const MOST_SHOWN = 200;
const MOST_IDS = 100;

export const requestQuery = z.object({
  limit: z.int().min(1).max(MOST_SHOWN).default(100),
  slow_ms: z.number().nonnegative().optional().describe("only requests that took so long in all"),
  failed: z.boolean().default(false).describe("only requests that ended with an error, not those whose client left"),
  id: z.array(z.string()).max(MOST_IDS).default([]).describe("only requests with one of these ids; may be repeated"),
});

type Query = z.output<typeof requestQuery>;

const EXPECTED: Readonly<Record<keyof Query, string>> = {
  limit: `an integer in [1, ${MOST_SHOWN}]`,
  slow_ms: "a number of milliseconds",
  failed: "true or false",
  id: `at most ${MOST_IDS} ids`,
};

/** @param query the URL's query @throws invalid_parameter */
export function readQuery(query: URLSearchParams): Query {
  const numberOf = (name: string) => (query.has(name) ? Number(query.get(name) || "NaN") : undefined);
  const failed = query.get("failed");
  const given = {
    limit: numberOf("limit"),
    slow_ms: numberOf("slow_ms"),
    failed: failed === null ? undefined : failed === "true" ? true : failed === "false" ? false : failed,
    id: query.getAll("id"),
  };
  const parsed = requestQuery.safeParse(given);
  if (parsed.success) return parsed.data;
  const name = String(parsed.error.issues[0]?.path[0]) as keyof Query;
  const got = name === "id" ? `${given.id.length}` : JSON.stringify(query.get(name)?.slice(0, 40));
  throw new MillraceError("invalid_parameter", `${name}: expected ${EXPECTED[name]}, got ${got}`, { param: name });
}

/** A remembered request. */
interface Note {
  readonly id: string;
  row(): RequestRow;
}

const MOST_KEPT = 1000;

/** A client that leaves is not a failure of the server. */
const isFailure = ({ outcome, status = 0 }: RequestRow): boolean =>
  outcome === "failed" || outcome === "broken" || (outcome !== "cancelled" && status >= 400);

/** Remembers the last requests, a thousand by default; each new one replaces the oldest. */
export class RequestRing<N extends Note> {
  readonly #notes: N[] = [];
  #numKept = 0;

  constructor(readonly size = MOST_KEPT) {}

  keep(note: N): void {
    this.#notes[this.#numKept++ % this.size] = note;
  }

  /** Newest first. @param isShown further filter */
  find(query: Query, isShown: (note: N) => boolean = () => true): readonly { note: N; row: RequestRow }[] {
    const found: { note: N; row: RequestRow }[] = [];
    const oldest = Math.max(0, this.#numKept - this.size);
    for (let i = this.#numKept - 1; i >= oldest && found.length < query.limit; i--) {
      const note = this.#notes[i % this.size]!;
      if ((query.id.length > 0 && !query.id.includes(note.id)) || !isShown(note)) continue;
      const row = note.row();
      if (query.failed && !isFailure(row)) continue;
      if (query.slow_ms !== undefined && (row.total_ms ?? 0) < query.slow_ms) continue;
      found.push({ note, row });
    }
    return found;
  }
}

/** The answer of GET /watch/requests. */
export function rowsAnswer(rows: readonly RequestRow[], kept: number): Response {
  const body: z.output<typeof requestRows> = { ...listBody(rows), kept };
  return Response.json(body, { headers: { "Cache-Control": "no-store" } });
}
