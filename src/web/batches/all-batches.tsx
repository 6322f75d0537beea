/** For operators: the batches of all tenants, their progress, and buttons that cancel them. */
import { useSignal } from "@preact/signals";
import { change, getJson } from "../api/client.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { behind, Pager } from "../parts/pager.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { BatchId, BatchProgress } from "./batch-progress.js";
import { isOverState, mayCancelState, type OpenAiBatch } from "./batch-view.js";

interface AnyBatch extends OpenAiBatch {
  readonly tenant: string;
  readonly models: readonly string[];
  readonly error_codes: readonly string[];
}

interface BatchPage {
  readonly data: readonly AnyBatch[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

const PAGE = 20;
const EVERY_MS = 2000;

export function AllBatches() {
  const after = useSignal<readonly string[]>([]);
  const timeText = useTimeText();
  const path = `admin/batches?limit=${PAGE}${behind(after.value)}`;
  const load = () => getJson<BatchPage>(path, "operator");
  const { data, error, reload } = useLoaded(load, { when: [path], everyMs: EVERY_MS });
  const { problem, said, act } = useAct(reload);
  const cancel = ({ id, tenant }: AnyBatch) => {
    const whose = tenant === "" ? "" : ` of ${tenant}`;
    if (!confirm(`Cancel ${id}${whose}? Lines without an answer stay so; the answers so far are kept.`)) return;
    void act(() => change("POST", `batches/${encodeURIComponent(id)}/cancel`));
  };
  return (
    <section>
      <h3>Batches of all tenants</h3>
      {error !== undefined && <p class="error">{error}</p>}
      <ActSays problem={problem} said={said} />
      {data?.data.length === 0 && <p class="hint">No client has made a batch.</p>}
      {data !== undefined && data.data.length > 0 && (
        <Table columns={["Made", "Batch", "Tenant", "Models", "State", "Progress", "Do"]}>
          {data.data.map((batch) => {
            const { id, tenant, models, status, request_counts: counts, in_progress_at: beganAt } = batch;
            return (
              <tr key={id}>
                <td>{timeText(batch.created_at)}</td>
                <td>
                  <BatchId id={id} />
                </td>
                <td>{tenant || "–"}</td>
                <td>{models.join(", ") || "–"}</td>
                <td>
                  <span class={`state ${status}`}>{status.replaceAll("_", " ")}</span> {batch.error_codes.join(", ")}
                </td>
                <td>
                  <BatchProgress batch={{ id, counts, beganAt, status, isOver: isOverState(status) }} />
                </td>
                <td>
                  {mayCancelState(status) && (
                    <Allowed least="operator">
                      <button
                        type="button"
                        class="plain"
                        aria-label={`Cancel ${id} of all tenants`}
                        onClick={() => cancel(batch)}
                      >
                        Cancel
                      </button>
                    </Allowed>
                  )}
                </td>
              </tr>
            );
          })}
        </Table>
      )}
      <Pager after={after} last={data?.has_more === true ? (data.last_id ?? undefined) : undefined} />
    </section>
  );
}
