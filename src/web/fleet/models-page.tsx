/** The server's models, a gateway's instances of them, and the models on its disk. */
import { change, getJson } from "../api/client.js";
import { loadModels, models, modelsError } from "../api/models.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { DiskModels } from "./disk-models.js";
import { inPath } from "./library-api.js";
import { health, isFleet, learnServer } from "./server-kind.js";

interface Instance {
  readonly id: string;
  readonly model: string;
  readonly engine: string;
  readonly state: string;
  readonly starts: number;
  readonly in_flight: number;
  readonly reason?: string;
  readonly url: string | null;
  /** Whether an administrator loaded it, in addition to the models of the file. */
  readonly is_loaded: boolean;
}

function Instances() {
  const load = async () => {
    await learnServer();
    return (await getJson<{ data: Instance[] }>("admin/instances", "operator")).data;
  };
  const { data: instances = [], error, act } = useLoaded(load, { everyMs: 2000 });
  const unload = (model: string) => {
    if (!confirm(`Unload ${model}? Its running requests end first, and further ones are refused.`)) return;
    void act(async () => {
      await change("DELETE", `models/${inPath(model)}`);
      await loadModels("operator");
    });
  };
  const numOf = (model: string) => instances.filter((one) => one.model === model).length;
  return (
    <section>
      <h3>Instances</h3>
      {error !== undefined && <p class="error">{error}</p>}
      <Table columns={["Instance", "Model", "Engine", "State", "Starts", "Requests", "Do"]}>
        {instances.map(({ id, model, engine, state, starts, in_flight, reason }) => (
          <tr key={id}>
            <td>{id}</td>
            <td>{model}</td>
            <td>{engine}</td>
            <td>
              <span class={`state ${state}`}>{state}</span> {reason}
            </td>
            <td>{starts}</td>
            <td>{in_flight}</td>
            <td class="row">
              <Allowed least="operator">
                {(["drain", "restart"] as const).map((action) => (
                  <button
                    key={action}
                    type="button"
                    class="plain"
                    onClick={() => void act(() => change("POST", `instances/${encodeURIComponent(id)}/${action}`))}
                  >
                    {action === "drain" ? "Drain" : "Restart"}
                  </button>
                ))}
              </Allowed>
            </td>
          </tr>
        ))}
      </Table>
      {[...new Set(instances.map(({ model }) => model))].map((model) => (
        <p class="row" key={model}>
          <span>
            {model}: {numOf(model) === 1 ? "1 instance" : `${numOf(model)} instances`}
          </span>
          <Allowed least="operator">
            {[1, -1].map((by) => (
              <button
                key={by}
                type="button"
                class="plain"
                disabled={numOf(model) + by < 0}
                onClick={() =>
                  void act(() => change("POST", `models/${inPath(model)}/scale`, { instances: numOf(model) + by }))
                }
              >
                {by > 0 ? "One more" : "One less"}
              </button>
            ))}
            {instances.some((one) => one.model === model && one.is_loaded) && (
              <button type="button" class="plain" onClick={() => unload(model)}>
                Unload
              </button>
            )}
          </Allowed>
        </p>
      ))}
    </section>
  );
}

export function ModelsPage() {
  const states = new Map((health.value?.models ?? []).map(({ model, instances }) => [model, instances]));
  return (
    <div class="page">
      <h2>Models</h2>
      {modelsError.value !== undefined && <p class="error">{modelsError.value}</p>}
      <Table columns={["Name", "For", "Context, tokens", "Instances"]}>
        {models.value.map(({ id, max_model_len, tasks }) => (
          <tr key={id}>
            <td>{id}</td>
            <td>{tasks?.join(", ") ?? "–"}</td>
            <td>{max_model_len?.toLocaleString("en") ?? "–"}</td>
            <td>
              {Object.entries(states.get(id) ?? {})
                .map(([state, count]) => `${count} ${state}`)
                .join(", ") || "–"}
            </td>
          </tr>
        ))}
      </Table>
      {isFleet.value && <Instances />}
      <DiskModels />
    </div>
  );
}
