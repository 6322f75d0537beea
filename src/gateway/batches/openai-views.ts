/** Files and batches as OpenAI's API shows them. */
import type { Page } from "./batch-table.js";
import type { BatchRecord, FileRecord } from "./record.js";

export function fileView({ id, bytes, createdAt, expiresAt, filename, purpose }: FileRecord): object {
  return {
    id,
    object: "file",
    bytes,
    created_at: createdAt,
    expires_at: expiresAt ?? null,
    filename,
    purpose,
    status: "processed",
    status_details: null,
  };
}

export function batchView(batch: BatchRecord) {
  const { times, counts, usage, faults } = batch;
  const at = (state: keyof typeof times): number | null => times[state] ?? null;
  return {
    id: batch.id,
    object: "batch",
    endpoint: batch.endpoint,
    model: batch.models.length === 1 ? batch.models[0] : null,
    errors: faults.length === 0 ? null : { object: "list", data: faults },
    input_file_id: batch.inputFileId,
    completion_window: "24h",
    status: batch.state,
    output_file_id: batch.outputFileId ?? null,
    error_file_id: batch.errorFileId ?? null,
    created_at: batch.createdAt,
    in_progress_at: at("in_progress"),
    expires_at: batch.expiresAt,
    finalizing_at: at("finalizing"),
    completed_at: at("completed"),
    failed_at: at("failed"),
    expired_at: at("expired"),
    cancelling_at: at("cancelling"),
    cancelled_at: at("cancelled"),
    request_counts: {
      total: batch.numLines,
      completed: counts.succeeded,
      failed: counts.errored + counts.expired + counts.cancelled,
    },
    usage: {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cached },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.input + usage.output,
    },
    metadata: batch.metadata ?? null,
  };
}

export function listView<T extends { readonly id: string }>(
  { items, hasMore }: Page<T>,
  view: (item: T) => object,
): object {
  return {
    object: "list",
    data: items.map(view),
    first_id: items[0]?.id ?? null,
    last_id: items.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
