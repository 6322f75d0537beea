/** Cascades: the share of the small model's answers that is kept, its savings and losses, and the guard. */
import { change, getJson } from "../api/client.js";
import { inPath } from "../fleet/library-api.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { type Cascade, keptShare, percent, savedBy } from "./routing-view.js";

const EVERY_MS = 5000;
const MONTH_MS = 30 * 86_400_000;

/** Mean cost of a model's requests, in dollars. */
type Costs = ReadonlyMap<string, number>;

/** Empty where the gateway keeps no ledger. */
async function loadCosts(): Promise<Costs> {
  const from = new Date(Date.now() - MONTH_MS).toISOString().slice(0, 10);
  const path = `admin/ledger/spend?group_by=model&from=${from}`;
  const rows = await getJson<{ data: { model: string; attempts: number; cost: string }[] }>(path, "nobody").catch(
    () => ({ data: [] }),
  );
  // A model without a price has no known cost.
  const priced = rows.data.filter(({ attempts, cost }) => attempts > 0 && Number(cost) > 0);
  return new Map(priced.map(({ model, attempts, cost }) => [model, Number(cost) / attempts]));
}

function savedText(cascade: Cascade, costs: Costs): string {
  const [small, large] = [costs.get(cascade.small), costs.get(cascade.large)];
  if (small === undefined || large === undefined || keptShare(cascade) === undefined) return "–";
  return savedBy(cascade, { small, large }).toFixed(6);
}

function Guard({ cascade }: { readonly cascade: Cascade }) {
  const timeText = useTimeText();
  if (cascade.is_open) return <>open</>;
  const since = cascade.closed_at === undefined ? "" : ` since ${timeText(Date.parse(cascade.closed_at) / 1000)}`;
  return (
    <span class="error">
      closed{since}: all requests go to {cascade.large}
    </span>
  );
}

export function Cascades() {
  const load = async () => ({
    list: (await getJson<{ data: Cascade[] }>("admin/cascades", "operator")).data,
    costs: await loadCosts(),
  });
  const { data, error, reload } = useLoaded(load, { everyMs: EVERY_MS });
  const { problem, said, act } = useAct(reload);
  const open = (name: string) => {
    if (!confirm(`Open ${name}? Its small model answers again, and the count of its losses begins anew.`)) return;
    void act(() => change("POST", `cascades/${inPath(name)}/open`), `${name} is open.`);
  };
  const columns = ["Cascade", "Small", "Large", "Decisions", "Kept", "Saved, dollars (about)", "Loss", "Guard", "Do"];
  return (
    <section>
      <h3>Cascades</h3>
      {error !== undefined && <p class="error">{error}</p>}
      <ActSays problem={problem} said={said} />
      {data?.list.length === 0 && (
        <p class="hint">
          None. A cascade of the gateway's file lets a small model answer first, and asks the large one where that is
          not good enough: cascades: in the file makes one.
        </p>
      )}
      {data !== undefined && data.list.length > 0 && (
        <>
          <Table columns={columns}>
            {data.list.map((cascade) => {
              const { name, small, large, decisions, loss, max_loss, num_samples, is_open } = cascade;
              const kept = keptShare(cascade);
              return (
                <tr key={name}>
                  <td>{name}</td>
                  <td>{small}</td>
                  <td>{large}</td>
                  <td>
                    {decisions.map(({ decision, count }) => `${decision} ${count.toLocaleString("en")}`).join(", ") ||
                      "–"}
                  </td>
                  <td>{kept === undefined ? "–" : percent(kept)}</td>
                  <td>{savedText(cascade, data.costs)}</td>
                  <td>
                    {num_samples === 0
                      ? "no audit yet"
                      : `${percent(loss.mean)} (${percent(loss.low)} to ${percent(loss.high)}), ${num_samples === 1 ? "1 audit" : `${num_samples} audits`}`}
                    , allowed {percent(max_loss)}
                  </td>
                  <td>
                    <Guard cascade={cascade} />
                  </td>
                  <td>
                    {!is_open && (
                      <Allowed least="operator">
                        <button type="button" class="plain" aria-label={`Open: ${name}`} onClick={() => open(name)}>
                          Open
                        </button>
                      </Allowed>
                    )}
                  </td>
                </tr>
              );
            })}
          </Table>
          <p class="hint">
            Decisions are counted since the gateway started. Loss is the share of requests whose answer was worse than
            the large model's. What is saved is an estimate: decisions, at the mean cost of each model's requests in the
            ledger's 30 days.
          </p>
        </>
      )}
    </section>
  );
}
