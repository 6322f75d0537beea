/** API keys: made, rotated and revoked, with their limits and budgets. */
import { useSignal } from "@preact/signals";
import { change, getJson } from "../api/client.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";

interface Key {
  readonly id: string;
  readonly name: string;
  readonly org: string;
  readonly team: string | null;
  readonly hint: string;
  readonly models: readonly string[] | null;
  readonly requests_per_minute: number | null;
  readonly budgets: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly expires_at: number | null;
  readonly last_used_at: number | null;
  readonly revoked_at: number | null;
}

interface KeyPage {
  readonly data: readonly Key[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

const PAGE = 50;

function budgetText(budgets: Key["budgets"]): string {
  const texts = Object.entries(budgets).map(([window, budget]) => `${Object.values(budget).join(" / ")} a ${window}`);
  return texts.join(", ") || "–";
}

function NewKey({ make }: { make(body: Record<string, unknown>): void }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const text = (name: string) => String(new FormData(form).get(name)).trim();
    const body: Record<string, unknown> = { name: text("name") };
    if (text("team") !== "") body.team = text("team");
    if (text("models") !== "") body.models = text("models").split(/[\s,]+/);
    if (text("requests") !== "") body.requests_per_minute = Number(text("requests"));
    if (text("budget") !== "") body.budgets = { [text("window")]: { hard: text("budget") } };
    if (text("expires") !== "") body.expires_at = Math.floor(new Date(text("expires")).getTime() / 1000);
    make(body);
    form.reset();
  };
  return (
    <form class="fields" onSubmit={submit}>
      <div class="field">
        <label for="key-name">Name</label>
        <input id="key-name" name="name" required maxLength={200} />
      </div>
      <div class="field">
        <label for="key-team">Team (org/team)</label>
        <input id="key-team" name="team" />
      </div>
      <div class="field">
        <label for="key-models">Models (patterns)</label>
        <input id="key-models" name="models" placeholder="all" />
      </div>
      <div class="field">
        <label for="key-requests">Requests a minute</label>
        <input id="key-requests" name="requests" type="number" min={1} placeholder="no limit" />
      </div>
      <div class="field">
        <label for="key-budget">Budget, dollars</label>
        <input id="key-budget" name="budget" inputMode="decimal" placeholder="none" />
      </div>
      <div class="field">
        <label for="key-window">… for each</label>
        <select id="key-window" name="window">
          <option value="day">day</option>
          <option value="month">month</option>
          <option value="hour">hour</option>
        </select>
      </div>
      <div class="field">
        <label for="key-expires">Expires</label>
        <input id="key-expires" name="expires" type="date" />
      </div>
      <button type="submit">Make a key</button>
    </form>
  );
}

export function KeysPage() {
  const after = useSignal<readonly string[]>([]);
  const shown = useSignal<string | undefined>(undefined);
  const timeText = useTimeText();
  const last = after.value.at(-1);
  const path = `admin/keys?limit=${PAGE}${last === undefined ? "" : `&after=${encodeURIComponent(last)}`}`;
  const { data, error, act } = useLoaded(() => getJson<KeyPage>(path, "operator"), { when: [path] });
  const showText = async (answer: Promise<Response>) => {
    shown.value = ((await (await answer).json()) as { key: string }).key;
  };
  return (
    <div class="page">
      <h2>Keys</h2>
      {error !== undefined && <p class="error">{error}</p>}
      {shown.value !== undefined && (
        <p class="notice" role="status">
          The key, which is shown this once: <code id="new-key">{shown.value}</code>{" "}
          <button type="button" class="plain" onClick={() => void navigator.clipboard.writeText(shown.value ?? "")}>
            Copy
          </button>
        </p>
      )}
      <Allowed least="admin">
        <NewKey make={(body) => void act(() => showText(change("POST", "keys", body)))} />
      </Allowed>
      <Table
        columns={[
          "Name",
          "Key",
          "Owner",
          "Models",
          "Requests a minute",
          "Budget, dollars",
          "Expires",
          "Last used",
          "Do",
        ]}
      >
        {data?.data.map((key) => (
          <tr key={key.id}>
            <td>{key.name}</td>
            <td>
              <code>{key.hint}</code>
            </td>
            <td>{key.team ?? key.org}</td>
            <td>{key.models?.join(", ") ?? "all"}</td>
            <td>{key.requests_per_minute ?? "–"}</td>
            <td>{budgetText(key.budgets)}</td>
            <td>{timeText(key.expires_at)}</td>
            <td>{timeText(key.last_used_at)}</td>
            <td class="row">
              <Allowed least="admin">
                <button
                  type="button"
                  class="plain"
                  onClick={() => void act(() => showText(change("POST", `keys/${key.id}/rotate`)))}
                >
                  Rotate
                </button>
                <button
                  type="button"
                  class="plain"
                  onClick={() => {
                    if (!confirm(`Revoke ${key.name}? Programs that use it are refused at once.`)) return;
                    void act(() => change("DELETE", `keys/${key.id}`));
                  }}
                >
                  Revoke
                </button>
              </Allowed>
            </td>
          </tr>
        ))}
      </Table>
      <p class="row">
        <button
          type="button"
          class="plain"
          disabled={after.value.length === 0}
          onClick={() => {
            after.value = after.value.slice(0, -1);
          }}
        >
          Newer
        </button>
        <button
          type="button"
          class="plain"
          disabled={data?.has_more !== true}
          onClick={() => {
            after.value = [...after.value, data!.last_id!];
          }}
        >
          Older
        </button>
      </p>
    </div>
  );
}
