/** Results of the checks on sampled answers, the changes that followed, and the last failing samples. */
import { useSignal } from "@preact/signals";
import { getJson } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { daysOf, type Period, PeriodField } from "../parts/period-field.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";

interface Row {
  readonly model: string;
  readonly check: string;
  readonly judged: number;
  readonly failing: number;
  readonly failing_share: number;
  readonly mean: number;
  readonly usual: number | null;
  readonly state: string;
  readonly drift: { readonly since: string; readonly mean: number; readonly usual: number } | null;
}

interface Report {
  readonly data: readonly Row[];
  readonly changes: readonly { readonly at: string; readonly model: string; readonly version: string }[];
  readonly dropped: Readonly<Record<string, number>>;
}

interface Sample {
  readonly request_id: string;
  readonly at: string;
  readonly model: string;
  readonly verdicts: Readonly<Record<string, { readonly failing: boolean; readonly note: string | null }>>;
  readonly feedback: { readonly score: number; readonly correction: string | null } | null;
  readonly text: { readonly messages: readonly { readonly content: string }[]; readonly answer: string } | null;
}

const PERIODS = ["last day", "last week", "last month"] as const;
/** Most characters of a text in a table. */
const SHOWN = 200;

const percent = (share: number | null): string => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
const start = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

function Checks() {
  const period = useSignal<Period>("last week");
  const path = `admin/quality?days=${daysOf(period.value)}`;
  const { data, error } = useLoaded(() => getJson<Report>(path, "operator"), { when: [path] });
  const timeText = useTimeText();
  const time = (iso: string): string => timeText(Date.parse(iso) / 1000);
  const numDropped = Object.values(data?.dropped ?? {}).reduce((sum, each) => sum + each, 0);
  return (
    <section>
      <div class="fields">
        <PeriodField period={period} periods={PERIODS} />
      </div>
      {error !== undefined && <p class="error">{error}</p>}
      <Table columns={["Model", "Check", "Judged", "Failing", "Of all requests", "Mean", "Usual", "State"]}>
        {data?.data.map(({ model, check, judged, failing, failing_share, mean, usual, state, drift }) => (
          <tr key={`${model} ${check}`}>
            <td>{model}</td>
            <td>{check}</td>
            <td>{judged}</td>
            <td>{failing}</td>
            <td>{percent(failing_share)}</td>
            <td>{percent(mean)}</td>
            <td>{percent(usual)}</td>
            <td>
              {state}
              {drift !== null &&
                ` since ${time(drift.since)}: ${percent(drift.mean)} instead of ${percent(drift.usual)}`}
            </td>
          </tr>
        ))}
      </Table>
      {data !== undefined && data.data.length === 0 && <p class="hint">No samples in this time.</p>}
      {numDropped > 0 && <p class="hint">{numDropped} samples were dropped.</p>}
      {data?.changes.map(({ at, model, version }) => (
        <p class="hint" key={`${at} ${model}`}>
          {time(at)}: {model} is version {version}
        </p>
      ))}
    </section>
  );
}

function FailingSamples() {
  const { data, error, reload } = useLoaded(() =>
    getJson<{ data: Sample[] }>("admin/quality/samples?failing=true&limit=50", "operator"),
  );
  const timeText = useTimeText();
  return (
    <section>
      <h3>Failing samples</h3>
      <button type="button" class="plain" onClick={() => void reload()}>
        Load again
      </button>
      {error !== undefined && <p class="error">{error}</p>}
      <Table columns={["At", "Request", "Model", "Fails", "Feedback", "Question", "Answer"]}>
        {data?.data.map(({ request_id, at, model, verdicts, feedback, text }) => (
          <tr key={request_id}>
            <td>{timeText(Date.parse(at) / 1000)}</td>
            <td>
              <code>{request_id}</code>
            </td>
            <td>{model}</td>
            <td>
              {Object.entries(verdicts)
                .flatMap(([check, { failing, note }]) => (failing ? [note === null ? check : `${check}: ${note}`] : []))
                .join("; ") || "–"}
            </td>
            <td>{feedback === null ? "–" : `${feedback.score} ${feedback.correction ?? ""}`}</td>
            <td>{start(text?.messages.at(-1)?.content ?? "–")}</td>
            <td>{start(text?.answer ?? "–")}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

export function QualityPage() {
  return (
    <div class="page">
      <h2>Quality</h2>
      <Checks />
      <FailingSamples />
    </div>
  );
}
