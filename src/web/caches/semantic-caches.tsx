/** The semantic caches: their state, the judged hits, and the reasons for misses. */
import { change, getJson } from "../api/client.js";
import { inPath } from "../fleet/library-api.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { sizeText } from "../parts/size-text.js";
import { Table } from "../parts/table.js";
import { objectionsText, percent, type SemanticStatus, semanticState } from "./cache-figures.js";

const EVERY_MS = 5000;
const COLUMNS = [
  "Model",
  "State",
  "Looked up",
  "Near enough",
  "Agreed",
  "Served",
  "Judged hits",
  "Said to be wrong",
  "Objections",
  "Kept",
  "Do",
];
const whole = (value: number): string => value.toLocaleString("en");

function JudgedText({ status: { trust } }: { readonly status: SemanticStatus }) {
  const { judged, wrong, upper_bound, audited, audited_wrong } = trust;
  if (judged === 0) return <>–</>;
  return (
    <>
      {whole(judged)}, {whole(wrong)} wrong (at most {percent(upper_bound)})
      {audited > 0 && `; of ${whole(audited)} audited, ${whole(audited_wrong)}`}
    </>
  );
}

export function SemanticCaches() {
  const load = () => getJson<{ data: SemanticStatus[] }>("admin/semantic-cache", "operator");
  const { data, error, reload } = useLoaded(load, { everyMs: EVERY_MS });
  const { problem, said, act } = useAct(reload);
  const reset = (model: string) => {
    if (!confirm(`Reset ${model}? What its hits have earned or lost is forgotten, and it begins anew in shadow.`))
      return;
    void act(() => change("POST", `semantic-cache/${inPath(model)}/reset`), `${model} judges anew.`);
  };
  return (
    <section>
      <h3>Questions that say the same</h3>
      {error !== undefined && <p class={data === undefined ? "hint" : "error"}>{error}</p>}
      <ActSays problem={problem} said={said} />
      {data?.data.length === 0 && <p class="hint">No question has come yet to a model with a semantic cache.</p>}
      {data !== undefined && data.data.length > 0 && (
        <Table columns={COLUMNS}>
          {data.data.map((status) => {
            const { model, state, counts, entries, bytes } = status;
            return (
              <tr key={model}>
                <td>{model}</td>
                <td>
                  <span class={state === "disabled" ? "error" : undefined}>{semanticState(status)}</span>
                </td>
                <td>{whole(counts.lookups)}</td>
                <td>{whole(counts.candidates)}</td>
                <td>{whole(counts.agreed)}</td>
                <td>{whole(counts.served)}</td>
                <td>
                  <JudgedText status={status} />
                </td>
                <td>{whole(counts.reported)}</td>
                <td>{objectionsText(counts.objections)}</td>
                <td>
                  {whole(entries)}, {sizeText(bytes)}
                </td>
                <td>
                  <Allowed least="operator">
                    <button type="button" class="plain" aria-label={`Reset: ${model}`} onClick={() => reset(model)}>
                      Reset
                    </button>
                  </Allowed>
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </section>
  );
}
