/** The models on the server's disk: load and delete them, and watch downloads. */
import { type Signal, useSignal } from "@preact/signals";
import { change, getJson } from "../api/client.js";
import { loadModels } from "../api/models.js";
import { ActSays, useAct } from "../parts/act.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { sizeText } from "../parts/size-text.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { HubSearch, NeedText } from "./hub-search.js";
import { type Disk, inPath, LIBRARY, type Pull, type StoredModel } from "./library-api.js";
import { isFleet } from "./server-kind.js";

const isRunning = ({ state }: Pull): boolean => state === "running" || state === "waiting";

function Pulls({ pulls, cancel }: { readonly pulls: readonly Pull[]; cancel(pull: Pull): unknown }) {
  return (
    <Table columns={["Download", "Progress", "State", "Do"]}>
      {pulls.map((pull) => (
        <tr key={pull.id}>
          <td>{pull.model}</td>
          <td>
            <progress
              aria-label={`Progress of ${pull.model}`}
              max={pull.total_bytes || 1}
              value={pull.received_bytes}
            />{" "}
            {sizeText(pull.received_bytes)} of {sizeText(pull.total_bytes)}
          </td>
          <td>
            <span class={`state ${pull.state}`}>{pull.state}</span>
            {pull.error !== null && ` ${[pull.error.message, pull.error.hint ?? ""].join(" – ")}`}
          </td>
          <td>
            {isRunning(pull) && (
              <Allowed least="operator">
                <button type="button" class="plain" onClick={() => cancel(pull)}>
                  Cancel
                </button>
              </Allowed>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

const stateOf = ({ is_complete, is_bundled, is_in_use, problem }: StoredModel): string =>
  [
    is_in_use ? "in use" : "",
    is_bundled ? "bundled" : "",
    is_complete ? "" : "incomplete: pulling it goes on",
    problem ?? "",
  ]
    .filter((text) => text !== "")
    .join(", ") || "–";

interface RowProps {
  readonly model: StoredModel;
  readonly freeBytes: number;
  act(what: () => Promise<unknown>): unknown;
}

function Row({ model, freeBytes, act }: RowProps) {
  const timeText = useTimeText();
  const { name, family, quantization, bytes, memory, last_used_at, is_complete, is_bundled, is_in_use } = model;
  const path = `library/models/${inPath(name)}`;
  const load = async () => {
    await change("POST", `${path}/load`);
    await loadModels("operator");
  };
  const remove = () => {
    if (!confirm(`Remove ${name} from the disk? ${sizeText(bytes)} would have to be downloaded again.`)) return;
    act(() => change("DELETE", path));
  };
  const buttons = [
    ...(isFleet.value && is_complete && !is_in_use ? [["Load", () => act(load)] as const] : []),
    ...(is_complete
      ? []
      : [["Go on", () => act(() => change("PUT", `library/models/${inPath(model.resumes ?? name)}`))] as const]),
    ...(is_bundled || is_in_use ? [] : [["Remove", remove] as const]),
  ];
  return (
    <tr>
      <td>{name}</td>
      <td>{family ?? "–"}</td>
      <td>{quantization ?? "–"}</td>
      <td>{sizeText(bytes)}</td>
      <td>
        {memory === undefined ? (
          "–"
        ) : (
          <NeedText need={memory} isTooMuch={!is_in_use && memory.total_bytes > freeBytes} />
        )}
      </td>
      <td>{timeText(last_used_at)}</td>
      <td>{stateOf(model)}</td>
      <td>
        <div class="row">
          {buttons.length > 0 && (
            <Allowed least="operator">
              {buttons.map(([text, onClick]) => (
                <button key={text} type="button" class="plain" aria-label={`${text}: ${name}`} onClick={onClick}>
                  {text}
                </button>
              ))}
            </Allowed>
          )}
        </div>
      </td>
    </tr>
  );
}

interface OpenProps {
  readonly disk: Disk;
  reload(): Promise<void>;
  /** Number of running downloads: the page reads the disk again when it changes. */
  readonly numRunning: Signal<number>;
}

function OpenDisk({ disk, reload, numRunning }: OpenProps) {
  const loadPulls = async () => {
    const { data } = await getJson<{ data: Pull[] }>(`${LIBRARY}/pulls`, "operator");
    numRunning.value = data.filter(isRunning).length;
    return data.toReversed();
  };
  const pulls = useLoaded(loadPulls, { everyMs: 1000 });
  const { problem, said, act } = useAct(() => Promise.all([reload(), pulls.reload()]));
  const pull = (model: string) => act(() => change("PUT", `library/models/${inPath(model)}`));
  const cancel = ({ id }: Pull) => act(() => change("DELETE", `library/pulls/${encodeURIComponent(id)}`));
  const { folder, free_disk_bytes, free_memory_bytes, data: models } = disk;
  return (
    <>
      <ActSays problem={problem} said={said} />
      {pulls.error !== undefined && <p class="error">{pulls.error}</p>}
      <p class="hint">
        In {folder}, where {free_disk_bytes === undefined ? "–" : sizeText(free_disk_bytes)} are free. Free memory:{" "}
        {sizeText(free_memory_bytes)}.
      </p>
      <Table columns={["Model", "Family", "Type", "Size", "Memory needed", "Last used", "State", "Do"]}>
        {models.map((model) => (
          <Row key={model.name} model={model} freeBytes={free_memory_bytes} act={act} />
        ))}
      </Table>
      {!isFleet.value && (
        <p class="hint">
          This server has one model, for as long as it runs: millrace serve --model NAME starts one with another.
        </p>
      )}
      {pulls.data !== undefined && pulls.data.length > 0 && <Pulls pulls={pulls.data} cancel={cancel} />}
      <section>
        <h3>The hub</h3>
        <Allowed least="operator">
          <HubSearch act={act} pull={pull} />
        </Allowed>
      </section>
    </>
  );
}

export function DiskModels() {
  const numRunning = useSignal(0);
  const { data, error, reload } = useLoaded(() => getJson<Disk>(LIBRARY, "operator"), {
    when: [numRunning.value],
    everyMs: 10_000,
  });
  return (
    <section>
      <h3>On disk</h3>
      {error !== undefined && <p class={data === undefined ? "hint" : "error"}>{error}</p>}
      {data !== undefined && <OpenDisk disk={data} reload={reload} numRunning={numRunning} />}
    </section>
  );
}
