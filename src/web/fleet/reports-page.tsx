/**
 * Reports of benchmarks, tunings, evaluations and plans: their list, their own pages, and two of one kind side by side.
 */
import { useSignal } from "@preact/signals";
import { getJson } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly low?: number;
  readonly high?: number;
}

interface Report {
  readonly id: string;
  readonly name: string;
  readonly at: string;
  readonly kind?: string;
  readonly machine?: string;
  readonly version?: string;
  readonly figures?: readonly Figure[];
  readonly error?: string;
  /** Address of the report's own page, valid for an hour. */
  readonly page: string | null;
}

/** Interval for reading the list again, since its links expire after an hour. */
const AGAIN_MS = 600_000;

const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

function figureText(figure: Figure | undefined): string {
  if (figure === undefined) return "–";
  const { value, low, high } = figure;
  const bounds = low === undefined || high === undefined ? "" : ` (${digits.format(low)} to ${digits.format(high)})`;
  return `${digits.format(value)}${bounds}`;
}

/** Whether the two intervals leave a gap: the rounds' spread does not explain such a difference. */
const areApart = (a: Figure, b: Figure): boolean =>
  a.low !== undefined &&
  b.low !== undefined &&
  a.high !== undefined &&
  b.high !== undefined &&
  (a.low > b.high || b.low > a.high);

function Comparison({ first, second }: { readonly first: Report; readonly second: Report }) {
  const of = new Map(second.figures?.map((figure) => [figure.name, figure]));
  const own = new Set(first.figures?.map(({ name }) => name));
  const alone = second.figures?.filter(({ name }) => !own.has(name)) ?? [];
  const pairs = [
    ...(first.figures ?? []).map((figure) => [figure.name, figure, of.get(figure.name)] as const),
    ...alone.map((figure) => [figure.name, undefined, figure] as const),
  ];
  return (
    <section aria-label="Comparison">
      <h3>
        {second.name} against {first.name}
      </h3>
      {first.machine !== second.machine && <p class="error">They were measured on different machines.</p>}
      <Table columns={["Figure", first.name, second.name, "Ratio", "Intervals"]}>
        {pairs.map(([name, a, b]) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{figureText(a)}</td>
            <td>{figureText(b)}</td>
            <td>
              {a === undefined || b === undefined || a.value === 0 ? "–" : `${digits.format(b.value / a.value)} ×`}
            </td>
            <td>{a?.low === undefined || b?.low === undefined ? "–" : areApart(a, b) ? "apart" : "overlap"}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

export function ReportsPage() {
  const { data, error, reload } = useLoaded(() => getJson<{ data: readonly Report[] }>("watch/reports", "operator"), {
    everyMs: AGAIN_MS,
  });
  const chosen = useSignal<readonly string[]>([]);
  const timeText = useTimeText();
  const reports = data?.data ?? [];
  const [first, second] = chosen.value.flatMap((id) => reports.find((report) => report.id === id) ?? []);
  const choose = (id: string, isChosen: boolean) => {
    const others = chosen.value.filter((each) => each !== id);
    chosen.value = isChosen ? [...others, id].slice(-2) : others;
  };
  return (
    <div class="page">
      <h2>Reports</h2>
      {reports.length > 0 && <p class="hint">Choose two of one kind to compare them.</p>}
      <button type="button" class="plain" onClick={() => void reload()}>
        Load again
      </button>
      {error !== undefined && <p class={data === undefined ? "hint" : "error"}>{error}</p>}
      {data !== undefined && reports.length === 0 && <p class="hint">The folder has no reports yet.</p>}
      {reports.length > 0 && (
        <Table columns={["Compare", "Report", "Kind", "At", "Version", "Machine", "First figure", "Page"]}>
          {reports.map(({ id, name, kind, at, version, machine, figures = [], error: fault, page }) => (
            <tr key={id}>
              <td>
                <input
                  type="checkbox"
                  aria-label={`Compare ${name}`}
                  checked={chosen.value.includes(id)}
                  disabled={figures.length === 0}
                  onChange={({ currentTarget }) => choose(id, currentTarget.checked)}
                />
              </td>
              <td>{name}</td>
              <td>{kind ?? "–"}</td>
              <td>{timeText(Date.parse(at) / 1000)}</td>
              <td>{version ?? "–"}</td>
              <td>{machine ?? "–"}</td>
              <td>
                {fault !== undefined && <span class="error">{fault}</span>}
                {figures[0] !== undefined && `${figures[0].name}: ${figureText(figures[0])}`}
              </td>
              <td>
                {page !== null && (
                  <a href={page} target="_blank" rel="noopener noreferrer" aria-label={`Open ${name}`}>
                    Open
                  </a>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {first !== undefined && second !== undefined && first.kind === second.kind && (
        <Comparison first={first} second={second} />
      )}
      {second !== undefined && first?.kind !== second.kind && (
        <p class="error">
          Expected two reports of one kind, got {first?.kind} and {second.kind}.
        </p>
      )}
    </div>
  );
}
