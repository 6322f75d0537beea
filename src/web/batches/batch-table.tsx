/** A client's batches: progress, results, and buttons that cancel them. */
import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { call } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { BatchId, BatchProgress } from "./batch-progress.js";
import { type Batch, pathOf, type ResultFile } from "./batch-view.js";
import { beginningOf } from "./beginning.js";
import { resultsOf } from "./lines.js";

const SHOWN_LINES = 10;
const COLUMNS = ["Made", "Batch", "For", "State", "Progress", "Results", "Do"];

/** The first lines of a file of results. */
function FirstResults({ file }: { readonly file: ResultFile }) {
  const load = async () => {
    const { text, isWhole } = await beginningOf(file.path);
    return resultsOf(text, isWhole, SHOWN_LINES);
  };
  const { data, error } = useLoaded(load, { when: [file.path] });
  if (error !== undefined) return <p class="error">{error}</p>;
  if (data === undefined) return <p class="hint">Reading …</p>;
  if (data.length === 0) return <p class="hint">No line of it can be shown here. Download the file.</p>;
  return (
    <>
      <p class="hint">The first lines of {file.name.toLowerCase()}:</p>
      <Table columns={["Line", "Status", "Text"]}>
        {data.map(({ customId, status, isError, text }, i) => (
          // Lines of a broken file may have equal ids.
          <tr key={i}>
            <td>{customId}</td>
            <td class={isError ? "error" : undefined}>{status}</td>
            <td>{text}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function Faults({ batch }: { readonly batch: Batch }) {
  return (
    <>
      <p class="hint">Nothing of this file was run. Mend it, and make a new batch:</p>
      <ul>
        {batch.faults.map(({ code, line, message }) => (
          <li key={`${line} ${code} ${message}`}>
            {line !== null && `line ${line}: `}
            {message} <code>{code}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

interface RowProps {
  readonly batch: Batch;
  /** The file whose first lines are shown; "faults": those of the input. */
  readonly open: ResultFile["name"] | "faults" | undefined;
  toggle(what: ResultFile["name"] | "faults"): void;
  act(what: () => Promise<unknown>): unknown;
}

function Row({ batch, open, toggle, act }: RowProps) {
  const timeText = useTimeText();
  const { id, api, status, mayCancel, endpoint, model, createdAt, files, faults } = batch;
  const cancel = () => {
    if (!confirm(`Cancel ${id}? Lines without an answer stay so; the answers so far are kept.`)) return;
    act(() => call(`${pathOf(api, id)}/cancel`, { method: "POST" }));
  };
  const opener = (what: ResultFile["name"] | "faults", text: string) => (
    <button
      type="button"
      class="plain"
      aria-expanded={open === what}
      aria-label={`${text}: ${id}`}
      onClick={() => toggle(what)}
    >
      {text}
    </button>
  );
  return (
    <tr>
      <td>{timeText(createdAt)}</td>
      <td>
        <BatchId id={id} />
      </td>
      <td>
        {endpoint} {model}
      </td>
      <td>
        <span class={`state ${status}`}>{status.replaceAll("_", " ")}</span>
      </td>
      <td>
        <BatchProgress batch={batch} />
      </td>
      <td>
        <div class="row">
          {files.map(({ name, path }) => (
            <span class="row" key={name}>
              <a href={path} download={`${id}-${name.toLowerCase()}.jsonl`} aria-label={`Download ${name}: ${id}`}>
                {name}
              </a>
              {opener(name, "Look")}
            </span>
          ))}
          {faults.length > 0 && opener("faults", "Why")}
          {files.length === 0 && faults.length === 0 && "–"}
        </div>
      </td>
      <td>
        {mayCancel && (
          <button type="button" class="plain" aria-label={`Cancel: ${id}`} onClick={cancel}>
            Cancel
          </button>
        )}
      </td>
    </tr>
  );
}

interface TableProps {
  readonly batches: readonly Batch[];
  act(what: () => Promise<unknown>): unknown;
}

export function BatchTable({ batches, act }: TableProps) {
  const open = useSignal<{ readonly id: string; readonly what: ResultFile["name"] | "faults" } | undefined>(undefined);
  return (
    <Table columns={COLUMNS}>
      {batches.map((batch) => {
        const { id, files } = batch;
        const what = open.value?.id === id ? open.value.what : undefined;
        const file = files.find(({ name }) => name === what);
        const toggle = (chosen: ResultFile["name"] | "faults") => {
          open.value = what === chosen ? undefined : { id, what: chosen };
        };
        return (
          <Fragment key={id}>
            <Row batch={batch} open={what} toggle={toggle} act={act} />
            {what !== undefined && (
              <tr>
                <td colSpan={COLUMNS.length}>
                  <div class="detail">
                    {file === undefined ? <Faults batch={batch} /> : <FirstResults file={file} />}
                  </div>
                </td>
              </tr>
            )}
          </Fragment>
        );
      })}
    </Table>
  );
}
