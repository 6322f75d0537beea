/**
 * The current load of each tenant of a gateway, the most expensive first. Only operators see it; other visitors never
 * learn that tenants exist.
 */
import { getJson } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { shownNumber } from "./chart.js";
import type { Load } from "./load.js";
import { camelNames, part, queryOf } from "./watch.js";

/** The server's own interval. */
const EVERY_MS = 10_000;

interface TenantLoad extends Load {
  readonly name: string;
}

export function TenantTable() {
  const { data, error } = useLoaded(
    async () => camelNames(await getJson("watch/tenants", "operator")) as { readonly data: readonly TenantLoad[] },
    { everyMs: EVERY_MS },
  );
  if (data === undefined && error === undefined) return null;
  return (
    <section aria-label="Tenants now">
      <h3>Tenants now</h3>
      {error !== undefined && <p class="error">{error}</p>}
      {data?.data.length === 0 && <p class="hint">None has asked for anything yet.</p>}
      {data !== undefined && data.data.length > 0 && (
        <Table
          columns={[
            "Tenant",
            "Requests/s",
            "Prompt tokens/s",
            "Answer tokens/s",
            "TTFT p95, ms",
            "Cost, dollars an hour",
          ]}
        >
          {data.data.map(({ name, requestsPerS, tokensInPerS, tokensOutPerS, ttft, costPerH }) => (
            <tr key={name}>
              <td>
                <button
                  type="button"
                  class="plain"
                  onClick={() => {
                    part.value = queryOf({ kind: "tenant", name });
                  }}
                >
                  {name}
                </button>
              </td>
              {[requestsPerS, tokensInPerS, tokensOutPerS, ttft.p95, costPerH].map((value, i) => (
                <td key={i}>{shownNumber(value)}</td>
              ))}
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
