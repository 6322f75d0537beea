/** Silences: the server lists matching alerts without sending them. */
import type { Signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { change, getJson } from "../api/client.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { oneLine } from "../text/one-line.js";
import { fitsText, METRICS, type Silence, type SilenceWish, silenceOf } from "./alert-view.js";

/** Longest reason; the server has the same limit. */
const MOST_CHARACTERS = 500;

export const NO_WISH: SilenceWish = { metric: "", tenant: "", key: "", model: "", hours: "2", comment: "" };

const TIMES = { "1": "1 hour", "2": "2 hours", "8": "8 hours", "24": "a day", "168": "a week" } as const;
const FIELDS = [
  ["metric", "Metric"],
  ["tenant", "Tenant"],
  ["key", "Key"],
  ["model", "Model"],
] as const;

interface SilenceDraft {
  readonly wish: Signal<SilenceWish>;
  /** Number of times that an alert's button has filled the form. */
  readonly fills: Signal<number>;
}

interface FormProps extends SilenceDraft {
  send(body: Record<string, string>): Promise<boolean>;
  refuse(why: string): void;
}

function SilenceForm({ wish, fills, send, refuse }: FormProps) {
  const comment = useRef<HTMLInputElement>(null);
  // An alert's button has filled in the known fields; the focus goes to the reason, so that the visitor can type at
  // once.
  useLayoutEffect(() => {
    if (fills.value > 0) comment.current?.focus();
  }, [fills.value]);
  const set = (name: keyof SilenceWish, value: string) => {
    wish.value = { ...wish.value, [name]: value };
  };
  const submit = async () => {
    const body = silenceOf(wish.value, Date.now());
    if (typeof body === "string") refuse(body);
    else if (await send(body)) wish.value = NO_WISH;
  };
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {FIELDS.map(([name, label]) => (
        <div class="field" key={name}>
          <label for={`silence-${name}`}>{label}</label>
          <input
            id={`silence-${name}`}
            placeholder="any"
            maxLength={256}
            list={name === "metric" ? "silence-metrics" : undefined}
            value={wish.value[name]}
            onInput={({ currentTarget }) => set(name, currentTarget.value)}
          />
        </div>
      ))}
      <datalist id="silence-metrics">
        {METRICS.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <div class="field">
        <label for="silence-hours">For</label>
        <select
          id="silence-hours"
          value={wish.value.hours}
          onChange={({ currentTarget }) => set("hours", currentTarget.value)}
        >
          {Object.entries(TIMES).map(([hours, text]) => (
            <option key={hours} value={hours}>
              {text}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for="silence-comment">Why</label>
        <input
          id="silence-comment"
          ref={comment}
          required
          maxLength={MOST_CHARACTERS}
          value={wish.value.comment}
          onInput={({ currentTarget }) => set("comment", currentTarget.value)}
        />
      </div>
      <button type="submit">Silence</button>
    </form>
  );
}

export function Silences(draft: SilenceDraft) {
  const timeText = useTimeText();
  const time = (iso: string): string => timeText(Date.parse(iso) / 1000);
  const load = () => getJson<{ data: Silence[] }>("admin/alerts/silences", "operator");
  const { data, error, reload } = useLoaded(load);
  const { problem, said, act, refuse } = useAct(reload);
  const end = (id: string) => act(() => change("DELETE", `alerts/silences/${encodeURIComponent(id)}`));
  return (
    <section>
      <h3>Silences</h3>
      {error !== undefined && <p class="error">{error}</p>}
      <ActSays problem={problem} said={said} />
      <Allowed least="operator">
        <SilenceForm
          {...draft}
          send={(body) =>
            act(() => change("POST", "alerts/silences", body), "Silenced. Such alerts are listed, and not sent.")
          }
          refuse={refuse}
        />
      </Allowed>
      {data?.data.length === 0 && (
        <p class="hint">No silences. One keeps alerts from the webhook for a time, such as that of a load test.</p>
      )}
      {data !== undefined && data.data.length > 0 && (
        <Table columns={["Alerts with", "From", "To", "Why", "By", "State", "Do"]}>
          {data.data.map((silence) => (
            <tr key={silence.id}>
              <td>{fitsText(silence)}</td>
              <td>{time(silence.starts)}</td>
              <td>{time(silence.ends)}</td>
              <td>{oneLine(silence.comment, MOST_CHARACTERS)}</td>
              <td>{oneLine(silence.author) || "–"}</td>
              <td>{silence.state}</td>
              <td>
                {silence.state !== "ended" && (
                  <Allowed least="operator">
                    <button
                      type="button"
                      class="plain"
                      aria-label={`End: ${fitsText(silence)}`}
                      onClick={() => void end(silence.id)}
                    >
                      End
                    </button>
                  </Allowed>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
