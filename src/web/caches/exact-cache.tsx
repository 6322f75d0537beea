/** The cache of equal requests: contents and savings per model, and a purge. */
import { change, getJson } from "../api/client.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { sizeText } from "../parts/size-text.js";
import { Table } from "../parts/table.js";
import { FigureTile } from "../parts/tile.js";
import { useTimeText } from "../parts/time-text.js";
import { hitRate, type ModelCounts, percent, purgeOf } from "./cache-figures.js";

interface Stats {
  readonly kind: string;
  readonly entries: number;
  readonly bytes: number;
  readonly max_bytes: number;
  readonly counted_since: string;
  readonly models: readonly ModelCounts[];
}

interface SpendRow {
  readonly model: string;
  readonly cost: string;
  readonly saved: string;
}

const EVERY_MS = 5000;
const MONTH_MS = 30 * 86_400_000;
const whole = (value: number): string => value.toLocaleString("en");

/** Saved dollars by model, where its price is known; undefined: the gateway keeps no ledger. */
async function loadSaved(): Promise<ReadonlyMap<string, string> | undefined> {
  const from = new Date(Date.now() - MONTH_MS).toISOString().slice(0, 10);
  const path = `admin/ledger/spend?group_by=model&from=${from}`;
  const rows = await getJson<{ data: SpendRow[] }>(path, "nobody").catch(() => undefined);
  const priced = rows?.data.filter(({ cost, saved }) => Number(cost) > 0 || Number(saved) > 0);
  return priced && new Map(priced.map(({ model, saved }) => [model, saved]));
}

function Tiles({ stats, saved }: { readonly stats: Stats; readonly saved: ReadonlyMap<string, string> | undefined }) {
  const { entries, bytes, max_bytes, models } = stats;
  const tokens = models.reduce((sum, each) => sum + each.saved_prompt_tokens + each.saved_output_tokens, 0);
  const dollars = [...(saved?.values() ?? [])].reduce((sum, each) => sum + Number(each), 0);
  return (
    <dl class="tiles">
      <FigureTile name="Hit rate" value={percent(hitRate(models))} />
      <FigureTile name="Kept answers" value={whole(entries)} />
      <FigureTile name="Size" value={sizeText(bytes)} unit={`of ${sizeText(max_bytes)}`} />
      <FigureTile name="Tokens saved" value={whole(tokens)} />
      {saved !== undefined && (
        <FigureTile
          name="Saved in 30 days"
          value={saved.size === 0 ? "–" : dollars.toFixed(4)}
          unit={saved.size === 0 ? "no price is known" : "dollars"}
        />
      )}
    </dl>
  );
}

function PurgeForm({ models, purge }: { readonly models: readonly string[]; purge(form: HTMLFormElement): unknown }) {
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        purge(event.currentTarget as HTMLFormElement);
      }}
    >
      <div class="field">
        <label for="purge-model">Of the model</label>
        <input id="purge-model" name="model" list="purge-models" placeholder="any" maxLength={256} />
        <datalist id="purge-models">
          {models.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      <div class="field">
        <label for="purge-tenant">For the tenant</label>
        <input id="purge-tenant" name="tenant" placeholder="any" maxLength={256} />
      </div>
      <div class="field">
        <label for="purge-prefix">With a tag that begins with</label>
        <input id="purge-prefix" name="prefix" placeholder="anything" maxLength={256} />
      </div>
      <button type="submit">Purge</button>
    </form>
  );
}

export function ExactCache() {
  const timeText = useTimeText();
  const load = async () => ({
    stats: await getJson<Stats>("admin/cache", "operator"),
    saved: await loadSaved(),
  });
  const { data, error, reload } = useLoaded(load, { everyMs: EVERY_MS });
  const { problem, said, act } = useAct(reload);
  const purge = async (form: HTMLFormElement) => {
    const fields = new FormData(form);
    const text = (name: string) => String(fields.get(name)).trim();
    const { query, words } = purgeOf({ model: text("model"), tenant: text("tenant"), prefix: text("prefix") });
    if (!confirm(`Purge ${words}? The next equal requests are computed again.`)) return;
    const isDone = await act(async () => {
      const { purged } = (await (await change("DELETE", `cache?${query}`)).json()) as { purged: number };
      return purged === 0 ? "There was no such answer." : `Purged: ${whole(purged)}.`;
    });
    if (isDone) form.reset();
  };
  const columns = ["Model", "Hit rate", "Hits", "Shared runs", "Misses", "Too old", "Passed by", "Tokens saved"];
  const models = data?.stats.models ?? [];
  const saved = data?.saved;
  return (
    <section>
      <h3>Equal requests</h3>
      {error !== undefined && <p class={data === undefined ? "hint" : "error"}>{error}</p>}
      {data !== undefined && (
        <>
          <Tiles stats={data.stats} saved={saved} />
          {models.length === 0 ? (
            <p class="hint">No request has come to a model with a cache since the gateway started.</p>
          ) : (
            <Table columns={saved === undefined ? columns : [...columns, "Saved in 30 days, dollars"]}>
              {models.map((each) => (
                <tr key={each.model}>
                  <td>{each.model}</td>
                  <td>{percent(hitRate([each]))}</td>
                  <td>{whole(each.hit)}</td>
                  <td>{whole(each.joined)}</td>
                  <td>{whole(each.miss)}</td>
                  <td>{whole(each.stale)}</td>
                  <td>{whole(each.bypass)}</td>
                  <td>
                    {whole(each.saved_prompt_tokens)} of prompts, {whole(each.saved_output_tokens)} of answers
                  </td>
                  {saved !== undefined && <td>{saved.get(each.model) ?? "–"}</td>}
                </tr>
              ))}
            </Table>
          )}
          <p class="hint">
            Counted since {timeText(Date.parse(data.stats.counted_since) / 1000)}, by this gateway; the answers are kept
            in the {data.stats.kind} store.{" "}
            {saved === undefined
              ? "With ledger: {} in the gateway's file, dollars are counted, too."
              : "The dollars are the ledger's, of both caches and of cascades."}
          </p>
          <h4>Purge</h4>
          <ActSays problem={problem} said={said} />
          <Allowed least="operator">
            <PurgeForm models={models.map(({ model }) => model)} purge={(form) => void purge(form)} />
          </Allowed>
        </>
      )}
    </section>
  );
}
