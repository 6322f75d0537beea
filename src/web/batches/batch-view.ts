/** Batches of both APIs, in the page's terms. */

interface Counts {
  readonly total: number;
  /** Number of lines in the output file. */
  readonly completed: number;
  /** Number of lines in the error file. */
  readonly failed: number;
}

/** A file of a batch's results. */
export interface ResultFile {
  readonly name: "Output" | "Errors" | "Results";
  /** Path of the file, relative to the page. */
  readonly path: string;
}

interface Fault {
  readonly code: string;
  readonly line: number | null;
  readonly message: string;
}

export interface Batch {
  readonly id: string;
  readonly api: "openai" | "anthropic";
  readonly status: string;
  readonly isOver: boolean;
  readonly mayCancel: boolean;
  readonly counts: Counts;
  readonly endpoint: string;
  readonly model: string | null;
  /** Seconds since 1970. */
  readonly createdAt: number;
  /** Start of the first line, in seconds since 1970; null: no line has started. */
  readonly beganAt: number | null;
  readonly files: readonly ResultFile[];
  /** The errors in its input file. */
  readonly faults: readonly Fault[];
}

/** A batch of OpenAI's API: the fields that the page reads. */
export interface OpenAiBatch {
  readonly id: string;
  readonly status: string;
  readonly endpoint: string;
  readonly model: string | null;
  readonly errors: { readonly data: readonly Fault[] } | null;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly created_at: number;
  readonly in_progress_at: number | null;
  readonly request_counts: Counts;
}

/** A batch of Anthropic's API. */
export interface AnthropicBatch {
  readonly id: string;
  readonly processing_status: "in_progress" | "canceling" | "ended";
  readonly request_counts: Readonly<Record<"processing" | "succeeded" | "errored" | "canceled" | "expired", number>>;
  readonly created_at: string;
  readonly results_url: string | null;
}

const MAY_CANCEL = ["validating", "in_progress"];
const OVER = ["completed", "failed", "expired", "cancelled"];

export const isOverState = (status: string): boolean => OVER.includes(status);
export const mayCancelState = (status: string): boolean => MAY_CANCEL.includes(status);

const contentOf = (id: string): string => `v1/files/${encodeURIComponent(id)}/content`;

export function ofOpenAi(batch: OpenAiBatch): Batch {
  const { id, status, endpoint, model, output_file_id: output, error_file_id: errors } = batch;
  return {
    id,
    api: "openai",
    status,
    isOver: isOverState(status),
    mayCancel: mayCancelState(status),
    counts: batch.request_counts,
    endpoint,
    model,
    createdAt: batch.created_at,
    beganAt: batch.in_progress_at,
    files: [
      ...(output === null ? [] : [{ name: "Output", path: contentOf(output) } as const]),
      ...(errors === null ? [] : [{ name: "Errors", path: contentOf(errors) } as const]),
    ],
    faults: batch.errors?.data ?? [],
  };
}

export function ofAnthropic(batch: AnthropicBatch): Batch {
  const { id, processing_status: status, request_counts: counts } = batch;
  const failed = counts.errored + counts.canceled + counts.expired;
  const createdAt = Date.parse(batch.created_at) / 1000;
  return {
    id,
    api: "anthropic",
    status,
    isOver: status === "ended",
    mayCancel: status === "in_progress",
    counts: { total: counts.processing + counts.succeeded + failed, completed: counts.succeeded, failed },
    endpoint: "/v1/messages",
    model: null,
    createdAt,
    beganAt: createdAt,
    // `results_url` has the gateway's own address; behind a proxy the page has another one.
    files: batch.results_url === null ? [] : [{ name: "Results", path: `${pathOf("anthropic", id)}/results` }],
    faults: [],
  };
}

/** Path of a batch, relative to the page. */
export const pathOf = (api: Batch["api"], id: string): string =>
  `v1/${api === "openai" ? "batches" : "messages/batches"}/${encodeURIComponent(id)}`;

const MINUTE_S = 60;
const HOUR_S = 3600;

/** @example durationText(7300) // "2 h" */
export function durationText(seconds: number): string {
  if (seconds < MINUTE_S) return "less than a minute";
  if (seconds < 2 * HOUR_S) return `${Math.round(seconds / MINUTE_S)} min`;
  return `${Math.round(seconds / HOUR_S)} h`;
}

/** Seconds until the last line, at the mean speed so far; undefined: no estimate is possible yet. */
export function secondsLeft(
  { counts: { total, completed, failed }, beganAt, isOver }: Pick<Batch, "counts" | "beganAt" | "isOver">,
  nowSeconds: number,
): number | undefined {
  const done = completed + failed;
  const passed = beganAt === null ? 0 : nowSeconds - beganAt;
  if (isOver || done === 0 || done >= total || passed <= 0) return undefined;
  return ((total - done) * passed) / done;
}
