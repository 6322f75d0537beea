/** Costs and savings of requests by model, tenant or day, and the last requests. */
import { useSignal } from "@preact/signals";
import { getJson } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { daysOf, type Period, PeriodField } from "../parts/period-field.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";

type Row = Readonly<Record<string, string | number | null>>;

interface LedgerRequest {
  readonly id: string;
  readonly began: string;
  readonly tenant: string;
  readonly model: string;
  readonly outcome: string;
  readonly status: number;
  readonly first_byte_ms: number | null;
  readonly total_ms: number;
  readonly cost: string;
  readonly saved_by: string;
}

const GROUPS = ["model", "tenant", "key", "team", "engine", "status", "day", "month"] as const;
const PERIODS = ["last day", "last week", "last month", "last year"] as const;
const DAY_MS = 86_400_000;

const tokensIn = (row: Row): number => Number(row.fresh) + Number(row.cache_read) + Number(row.cache_write);
const whole = (value: number): string => value.toLocaleString("en");

function Spend() {
  const group = useSignal<string>("model");
  const period = useSignal<Period>("last month");
  const from = new Date(Date.now() - daysOf(period.value) * DAY_MS).toISOString().slice(0, 10);
  const path = `admin/ledger/spend?group_by=${group.value}&from=${from}`;
  const { data, error } = useLoaded(() => getJson<{ data: Row[] }>(path, "operator"), { when: [path] });
  const rows = data?.data ?? [];
  const most = Math.max(1e-12, ...rows.map((row) => Number(row.cost)));
  return (
    <section>
      <div class="fields">
        <div class="field">
          <label for="group">By</label>
          <select
            id="group"
            value={group.value}
            onChange={({ currentTarget }) => {
              group.value = currentTarget.value;
            }}
          >
            {GROUPS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </div>
        <PeriodField period={period} periods={PERIODS} />
      </div>
      {error !== undefined && <p class="error">{error}</p>}
      <Table
        columns={[
          group.value.charAt(0).toUpperCase() + group.value.slice(1),
          "Requests",
          "Prompt tokens",
          "… from a cache",
          "Answer tokens",
          "Cost, dollars",
          "Saved, dollars",
          "Share of the highest",
        ]}
      >
        {rows.map((row) => (
          <tr key={String(row[group.value])}>
            <td>{row[group.value] === "" ? "–" : row[group.value]}</td>
            <td>{whole(Number(row.requests))}</td>
            <td>{whole(tokensIn(row))}</td>
            <td>{whole(Number(row.cache_read))}</td>
            <td>{whole(Number(row.output))}</td>
            <td>{row.cost}</td>
            <td>{row.saved}</td>
            <td>
              <meter
                min={0}
                max={1}
                value={Number(row.cost) / most}
                aria-label={`${row[group.value]}: ${row.cost} dollars`}
              />
            </td>
          </tr>
        ))}
      </Table>
      {data !== undefined && rows.length === 0 && <p class="hint">No requests in this time.</p>}
    </section>
  );
}

function LastRequests() {
  const { data, error, reload } = useLoaded(() =>
    getJson<{ data: LedgerRequest[] }>("admin/ledger/requests?limit=50", "operator"),
  );
  const timeText = useTimeText();
  const ms = (value: number | null): string => (value === null ? "–" : `${Math.round(value)} ms`);
  return (
    <section>
      <h3>Last requests</h3>
      <button type="button" class="plain" onClick={() => void reload()}>
        Load again
      </button>
      {error !== undefined && <p class="error">{error}</p>}
      <Table
        columns={["Began", "Id", "Tenant", "Model", "Outcome", "First byte", "Whole", "Cost, dollars", "Saved by"]}
      >
        {data?.data.map((row) => (
          <tr key={row.id}>
            <td>{timeText(Date.parse(row.began) / 1000)}</td>
            <td>
              <code>{row.id}</code>
            </td>
            <td>{row.tenant}</td>
            <td>{row.model}</td>
            <td>
              {row.outcome} {row.status}
            </td>
            <td>{ms(row.first_byte_ms)}</td>
            <td>{ms(row.total_ms)}</td>
            <td>{row.cost}</td>
            <td>{row.saved_by || "–"}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

export function SpendPage() {
  return (
    <div class="page">
      <h2>Spend</h2>
      <Spend />
      <LastRequests />
    </div>
  );
}
