/** Organisations and teams: create and delete them, with their limits and budgets. */
import { change, getJson } from "../api/client.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { fieldOf, LIMIT_COLUMNS, LimitCells, LimitFields, limitsOf, type Scope, type ScopePage } from "./scopes.js";

const MOST_SHOWN = 100;

interface Owners {
  readonly rows: readonly (Scope & { readonly path: string })[];
  readonly hasMore: boolean;
}

async function load(): Promise<Owners> {
  const kinds = ["orgs", "teams"] as const;
  const pages = await Promise.all(
    kinds.map((kind) => getJson<ScopePage<Scope>>(`admin/${kind}?limit=${MOST_SHOWN}&usage=true`, "operator")),
  );
  const rows = pages.flatMap(({ data }, i) => data.map((scope) => ({ ...scope, path: `${kinds[i]}/${scope.id}` })));
  // A team's id begins with its organisation's, so each stands below its own.
  rows.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { rows, hasMore: pages.some((page) => page.has_more) };
}

/** @param make resets the form on success; after a refusal the fields stay for correction */
function NewOwner({ make }: { make(path: string, body: object, form: HTMLFormElement): void }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const [org, team] = fieldOf(form, "id")!.split("/", 2);
    const limits = limitsOf(form);
    if (team === undefined) make("orgs", { ...limits, id: org }, form);
    else make("teams", { ...limits, org, id: team }, form);
  };
  return (
    <form class="fields" onSubmit={submit}>
      <div class="field">
        <label for="owner-id">Organisation, or org/team</label>
        <input id="owner-id" name="id" required pattern="[A-Za-z0-9][A-Za-z0-9._\-]*(/[A-Za-z0-9][A-Za-z0-9._\-]*)?" />
      </div>
      <LimitFields of="owner" />
      <button type="submit">Make it</button>
    </form>
  );
}

export function OwnersSection() {
  const { data, error, act } = useLoaded(load);
  return (
    <section>
      <h3>Organisations and teams</h3>
      {error !== undefined && <p class="error">{error}</p>}
      <Allowed least="admin">
        <NewOwner make={(path, body, form) => void act(() => change("POST", path, body).then(() => form.reset()))} />
      </Allowed>
      <Table columns={["Id", ...LIMIT_COLUMNS, "Do"]}>
        {data?.rows.map((scope) => (
          <tr key={scope.path}>
            <td>{scope.id}</td>
            <LimitCells scope={scope} />
            <td class="row">
              <Allowed least="admin">
                <button
                  type="button"
                  class="plain"
                  onClick={() => {
                    if (!confirm(`Delete ${scope.id}? Its keys are refused at once.`)) return;
                    void act(() => change("DELETE", scope.path));
                  }}
                >
                  Delete
                </button>
              </Allowed>
            </td>
          </tr>
        ))}
      </Table>
      {data?.hasMore === true && <p class="hint">The newest {MOST_SHOWN} of each are shown.</p>}
    </section>
  );
}
