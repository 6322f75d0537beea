/**
 * API keys: create, rotate and revoke them, with their limits, budgets and use; below them their organisations and
 * teams.
 */
import { useSignal } from "@preact/signals";
import { change, getJson } from "../api/client.js";
import { Allowed } from "../parts/allowed.js";
import { CopyButton } from "../parts/copy.js";
import { useLoaded } from "../parts/load.js";
import { behind, Pager } from "../parts/pager.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { OwnersSection } from "./owners.js";
import { fieldOf, LIMIT_COLUMNS, LimitCells, LimitFields, limitsOf, type Scope, type ScopePage } from "./scopes.js";

interface Key extends Scope {
  readonly org: string;
  readonly team: string | null;
  readonly hint: string;
  readonly expires_at: number | null;
  readonly last_used_at: number | null;
  readonly revoked_at: number | null;
}

const PAGE = 50;

/** @param make creates the key, then resets the form; after a refusal the form keeps its values */
function NewKey({ make }: { make(body: Record<string, unknown>, form: HTMLFormElement): void }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const expires = fieldOf(form, "expires");
    const body = {
      ...limitsOf(form),
      name: fieldOf(form, "name"),
      team: fieldOf(form, "team"),
      expires_at: expires === undefined ? undefined : Math.floor(new Date(expires).getTime() / 1000),
    };
    make(body, form);
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
      <LimitFields of="key" />
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
  const path = `admin/keys?usage=true&limit=${PAGE}${behind(after.value)}`;
  const { data, error, act } = useLoaded(() => getJson<ScopePage<Key>>(path, "operator"), { when: [path] });
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
          <CopyButton textOf={() => shown.value ?? ""} />
        </p>
      )}
      <Allowed least="admin">
        <NewKey
          make={(body, form) => void act(() => showText(change("POST", "keys", body)).then(() => form.reset()))}
        />
      </Allowed>
      <Table columns={["Name", "Key", "Owner", ...LIMIT_COLUMNS, "Expires", "Last used", "Do"]}>
        {data?.data.map((key) => (
          <tr key={key.id}>
            <td>{key.name}</td>
            <td>
              <code>{key.hint}</code>
            </td>
            <td>{key.team ?? key.org}</td>
            <LimitCells scope={key} />
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
      <Pager after={after} last={data?.has_more === true ? (data.last_id ?? undefined) : undefined} />
      <OwnersSection />
    </div>
  );
}
