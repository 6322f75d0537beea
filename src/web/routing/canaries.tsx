/** Canaries: a change under trial on a share of the live requests, beside the unchanged instances. */
import { change, getJson } from "../api/client.js";
import { models } from "../api/models.js";
import { session } from "../api/session.js";
import { inPath } from "../fleet/library-api.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { type Canary, canaryOf, isRunning, percent, ratioText } from "./routing-view.js";

const EVERY_MS = 2000;
const TIMES = [
  ["duration_ms", "Request, ms"],
  ["ttft_ms", "First token, ms"],
  ["tpot_ms", "Per token, ms"],
] as const;
const ms = (value: number | null): string => (value === null ? "–" : value.toFixed(1));

function Figures({ canary: { model, canary, others, ratios } }: { readonly canary: Canary }) {
  return (
    <Table columns={[`Of ${model}`, "Canary", "Others", "Canary ÷ others"]}>
      {(["requests", "failed"] as const).map((name) => (
        <tr key={name}>
          <td>{name === "requests" ? "Requests" : "Failed"}</td>
          <td>{canary[name].toLocaleString("en")}</td>
          <td>{others[name].toLocaleString("en")}</td>
          <td>–</td>
        </tr>
      ))}
      {TIMES.map(([name, label]) => (
        <tr key={name}>
          <td>{label}</td>
          <td>{ms(canary[name])}</td>
          <td>{ms(others[name])}</td>
          <td>{ratioText(ratios[name])}</td>
        </tr>
      ))}
    </Table>
  );
}

function stateText({ state, because, share, seconds_left, minutes }: Canary): string {
  if (state === "running") {
    const left = seconds_left === null ? "" : `, ${Math.ceil(seconds_left / 60)} of ${minutes} min left`;
    return `running with ${percent(share)} of the requests${left}`;
  }
  return because === "" ? state : `${state}: ${because}`;
}

function OneCanary({ canary, stop }: { readonly canary: Canary; stop(model: string): void }) {
  const timeText = useTimeText();
  const { model, state, started, args, weights } = canary;
  const changes = [...(weights === null ? [] : [`weights ${weights}`]), ...(args.length > 0 ? [args.join(" ")] : [])];
  const isBad = state === "slower" || state === "failing";
  return (
    <>
      <p class="row">
        <span>
          <strong>{model}</strong> with <code>{changes.join(", ") || "no change"}</code>, since{" "}
          {timeText(Date.parse(started) / 1000)}: <span class={isBad ? "error" : undefined}>{stateText(canary)}</span>
        </span>
        {isRunning(canary) && (
          <button type="button" class="plain" aria-label={`Stop the canary of ${model}`} onClick={() => stop(model)}>
            Stop
          </button>
        )}
      </p>
      <Figures canary={canary} />
    </>
  );
}

interface StartProps {
  start(body: Record<string, unknown>): Promise<boolean>;
  refuse(why: string): void;
}

function StartForm({ start, refuse }: StartProps) {
  const submit = async (form: HTMLFormElement) => {
    const fields = new FormData(form);
    const text = (name: string) => String(fields.get(name)).trim();
    const [model, args, weights, minutes, share] = ["model", "args", "weights", "minutes", "share"].map(text);
    const body = canaryOf({ model: model!, args: args!, weights: weights!, minutes: minutes!, share: share! });
    if (typeof body === "string") refuse(body);
    else if (await start(body)) form.reset();
  };
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void submit(event.currentTarget as HTMLFormElement);
      }}
    >
      <div class="field">
        <label for="canary-model">Model</label>
        <input id="canary-model" name="model" list="canary-models" required maxLength={256} />
        <datalist id="canary-models">
          {models.value.map(({ id }) => (
            <option key={id} value={id} />
          ))}
        </datalist>
      </div>
      <div class="field">
        <label for="canary-args">Flags</label>
        <input id="canary-args" name="args" placeholder="--max-num-seqs 32" maxLength={10_000} />
      </div>
      <div class="field">
        <label for="canary-weights">Other weights</label>
        <input id="canary-weights" name="weights" placeholder="as they are" maxLength={10_000} />
      </div>
      <div class="field">
        <label for="canary-minutes">Minutes</label>
        <input id="canary-minutes" name="minutes" type="number" min={1} max={10_080} value={30} required />
      </div>
      <div class="field">
        <label for="canary-share">Share, percent</label>
        <input id="canary-share" name="share" type="number" min={0.1} max={90} step={0.1} placeholder="equal" />
      </div>
      <button type="submit">Start a canary</button>
    </form>
  );
}

function OpenCanaries() {
  const load = () => getJson<{ data: Canary[] }>("admin/canaries", "operator");
  const { data, error, reload } = useLoaded(load, { everyMs: EVERY_MS });
  const { problem, said, act, refuse } = useAct(reload);
  const stop = (model: string) => {
    if (!confirm(`Stop the canary of ${model}? Its instance is removed.`)) return;
    void act(() => change("DELETE", `canaries/${inPath(model)}`));
  };
  return (
    <>
      {error !== undefined && <p class="error">{error}</p>}
      <ActSays problem={problem} said={said} />
      <Allowed least="admin">
        <StartForm
          start={(body) => act(() => change("POST", "canaries", body), "The canary's instance starts.")}
          refuse={refuse}
        />
      </Allowed>
      {data?.data.length === 0 && (
        <p class="hint">
          No canary since the gateway started. One tries other flags or weights on a share of a model's requests, and
          ends as soon as it is surely worse.
        </p>
      )}
      {data?.data.map((canary) => (
        <OneCanary key={canary.model} canary={canary} stop={stop} />
      ))}
    </>
  );
}

export function Canaries() {
  return (
    <section>
      <h3>Canaries</h3>
      {/* The reasons may contain lines of an engine's output, which viewers must not see. */}
      {session.value?.role === "viewer" ? <p class="hint">needs the role operator</p> : <OpenCanaries />}
    </section>
  );
}
