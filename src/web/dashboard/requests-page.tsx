/** The last requests: the client, the result, and a bar with the time of each part. */
import { type Signal, useSignal } from "@preact/signals";
import { getJson } from "../api/client.js";
import { health, isFleet } from "../fleet/server-kind.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { shownNumber } from "./chart.js";

interface Row {
  readonly id: string;
  readonly at_ms: number;
  readonly path: string;
  readonly model: string;
  readonly tenant: string;
  readonly instance?: string;
  readonly outcome: "running" | "answered" | "broken" | "failed" | "cancelled";
  readonly status?: number;
  readonly error_code?: string;
  readonly finish_reason?: string;
  readonly prompt_tokens?: number;
  readonly cached_tokens?: number;
  readonly output_tokens?: number;
  readonly draft_tokens?: number;
  readonly policies_ms?: number;
  readonly routing_ms?: number;
  readonly prepare_ms?: number;
  readonly queue_ms?: number;
  readonly prefill_ms?: number;
  readonly decode_ms?: number;
  readonly ttft_ms?: number;
  readonly tpot_ms?: number;
  readonly total_ms?: number;
  readonly retries?: readonly { readonly instance: string; readonly reason: string }[];
}

interface Answer {
  readonly kept: number;
  readonly data: readonly Row[];
}

/** In order of time. */
const PARTS = [
  ["policies_ms", "policies"],
  ["routing_ms", "choice of an instance"],
  ["prepare_ms", "prompt"],
  ["queue_ms", "queue"],
  ["prefill_ms", "prefill"],
  ["decode_ms", "decode"],
] as const;

const SLOW = { "": "Any time", "500": "0.5 s and more", "2000": "2 s and more", "10000": "10 s and more" } as const;
const EVERY_MS = 2000;

const milliseconds = (value: number | undefined): string => (value === undefined ? "–" : `${shownNumber(value)} ms`);

/** A bar in hundredths of the longest shown request. */
function Bar({ row, longestMs }: { readonly row: Row; readonly longestMs: number }) {
  let end = 0;
  const parts = PARTS.map(([name, label], i) => {
    const width = (100 * Math.max(0, row[name] ?? 0)) / longestMs;
    const x = end;
    end += width;
    return { name, label, width, x, part: i + 1 };
  });
  const rest = Math.max(0, (100 * (row.total_ms ?? 0)) / longestMs - end);
  const words = parts.filter(({ width }) => width > 0).map(({ name, label }) => `${label} ${milliseconds(row[name])}`);
  return (
    <svg class="parts" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={words.join(", ")}>
      {parts.map(({ name, width, x, part }) => (
        <rect key={name} class={`part-${part}`} x={x} y={0} width={width} height={10} />
      ))}
      <rect class="part-rest" x={end} y={3} width={rest} height={4} />
    </svg>
  );
}

function Legend() {
  return (
    <ul class="legend">
      {PARTS.map(([name, label], i) => (
        <li key={name}>
          <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
            <rect class={`part-${i + 1}`} width={10} height={10} />
          </svg>
          {label}
        </li>
      ))}
    </ul>
  );
}

function Detail({ row }: { readonly row: Row }) {
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["Id", row.id],
    ["Path", row.path],
    ["Tenant", row.tenant || undefined],
    ["Instance", row.instance],
    ["Error", row.error_code],
    ["Ended by", row.finish_reason],
    ...PARTS.map(
      ([name, label]) => [`In ${label}`, row[name] === undefined ? undefined : milliseconds(row[name])] as const,
    ),
    ...(row.retries ?? []).map(({ instance, reason }) => [`Not taken by ${instance}`, reason] as const),
  ];
  return (
    <dl class="facts-list detail">
      {facts.map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

const time = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

function tokensText({ prompt_tokens: prompt, cached_tokens: cached = 0 }: Row): string {
  if (prompt === undefined) return "–";
  return cached === 0 ? String(prompt) : `${prompt}, ${cached} cached`;
}

function outputText({ output_tokens: output, draft_tokens: drafted = 0 }: Row): string {
  if (output === undefined) return "–";
  return drafted === 0 ? String(output) : `${output}, ${drafted} drafted`;
}

interface Filter {
  readonly isFailed: Signal<boolean>;
  /** The least duration to show, in milliseconds, as text; empty: requests of every duration. */
  readonly slow: Signal<string>;
  readonly id: Signal<string>;
}

function FilterForm({ isFailed, slow, id }: Filter) {
  return (
    <form class="fields" onSubmit={(event) => event.preventDefault()}>
      <div class="field">
        <label for="requests-slow">Took</label>
        <select
          id="requests-slow"
          value={slow.value}
          onChange={({ currentTarget }) => {
            slow.value = currentTarget.value;
          }}
        >
          {Object.entries(SLOW).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for="requests-id">Id</label>
        <input
          id="requests-id"
          maxLength={128}
          value={id.value}
          placeholder="any"
          onChange={({ currentTarget }) => {
            id.value = currentTarget.value.trim();
          }}
        />
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={isFailed.value}
          onChange={({ currentTarget }) => {
            isFailed.value = currentTarget.checked;
          }}
        />
        Only failed ones
      </label>
    </form>
  );
}

interface RequestRowsProps {
  readonly row: Row;
  readonly longestMs: number;
  readonly numColumns: number;
  readonly isOpen: boolean;
  /** Opens the row's detail, or closes it. */
  toggle(): void;
}

/** A request's row, with its detail where it is open. */
function RequestRows({ row, longestMs, numColumns, isOpen, toggle }: RequestRowsProps) {
  return (
    <>
      <tr>
        <td>
          <button type="button" class="plain" aria-expanded={isOpen} onClick={toggle}>
            {time.format(row.at_ms)}
          </button>
        </td>
        <td>{row.model}</td>
        {isFleet.value && <td>{row.instance ?? "–"}</td>}
        <td class={`state ${row.outcome}`}>
          {row.outcome}
          {row.status !== undefined && row.status !== 200 ? ` ${row.status}` : ""}
        </td>
        <td>{tokensText(row)}</td>
        <td>{outputText(row)}</td>
        <td>{milliseconds(row.ttft_ms)}</td>
        <td>{milliseconds(row.tpot_ms)}</td>
        <td>{milliseconds(row.total_ms)}</td>
        <td>
          <Bar row={row} longestMs={longestMs} />
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={numColumns}>
            <Detail row={row} />
          </td>
        </tr>
      )}
    </>
  );
}

const COLUMNS = ["Came", "Model", "Answer", "Prompt", "Output", "TTFT", "Per token", "In all", "Parts"];

export function RequestsPage() {
  const isFailed = useSignal(false);
  const slow = useSignal<string>("");
  const id = useSignal("");
  const open = useSignal<Row | undefined>(undefined);
  const query = new URLSearchParams();
  if (isFailed.value) query.set("failed", "true");
  if (slow.value !== "") query.set("slow_ms", slow.value);
  if (id.value !== "") query.set("id", id.value);
  const asker = isFleet.value ? "operator" : "client";
  const path = `watch/requests?${query}`;
  // The server decides who may read the requests.
  const isLearnt = health.value !== undefined;
  const get = async () => (isLearnt ? await getJson<Answer>(path, asker) : undefined);
  const { data, error } = useLoaded(get, { when: [path, asker, isLearnt], everyMs: EVERY_MS });
  const rows = data?.data ?? [];
  const longestMs = Math.max(1, ...rows.map(({ total_ms: total = 0 }) => total));
  const columns = isFleet.value ? [...COLUMNS.slice(0, 2), "Instance", ...COLUMNS.slice(2)] : COLUMNS;
  return (
    <div class="page">
      <h2>Requests</h2>
      {error !== undefined && <p class="error">{error}</p>}
      <FilterForm isFailed={isFailed} slow={slow} id={id} />
      <Legend />
      {data !== undefined && rows.length === 0 && (
        <p class="hint">None of the last {data.kept} requests is one of these.</p>
      )}
      {rows.length > 0 && (
        <Table columns={columns}>
          {rows.map((row) => {
            const isOpen = open.value?.id === row.id && open.value.at_ms === row.at_ms;
            return (
              <RequestRows
                key={`${row.id} ${row.at_ms}`}
                row={row}
                longestMs={longestMs}
                numColumns={columns.length}
                isOpen={isOpen}
                toggle={() => {
                  open.value = isOpen ? undefined : row;
                }}
              />
            );
          })}
        </Table>
      )}
    </div>
  );
}
