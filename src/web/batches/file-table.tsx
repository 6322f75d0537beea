/** A client's files: download them, delete them, or create a batch from one. */
import { useSignal } from "@preact/signals";
import { call, getJson } from "../api/client.js";
import { useLoaded } from "../parts/load.js";
import { behind, Pager } from "../parts/pager.js";
import { sizeText } from "../parts/size-text.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { oneLine } from "../text/one-line.js";
import { beginningOf } from "./beginning.js";
import { firstLineOf } from "./lines.js";
import { ENDPOINTS, makeBatch } from "./new-batch.js";

interface StoredFile {
  readonly id: string;
  readonly filename: string;
  readonly bytes: number;
  readonly purpose: string;
  readonly created_at: number;
  readonly expires_at: number | null;
}

interface FilePage {
  readonly data: readonly StoredFile[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

const PAGE = 20;

const pathOf = (id: string): string => `v1/files/${encodeURIComponent(id)}`;

/** Creates a batch for the path in the file's first line. */
async function makeBatchOf({ id }: StoredFile): Promise<void> {
  const { text, isWhole } = await beginningOf(`${pathOf(id)}/content`);
  const { url, problem } = firstLineOf(text, isWhole);
  if (problem !== undefined) throw new Error(problem);
  await makeBatch(id, url ?? ENDPOINTS[0]!);
}

interface Props {
  /** The table loads again when this changes. */
  readonly version: number;
  act(what: () => Promise<unknown>): unknown;
}

export function FileTable({ version, act }: Props) {
  const after = useSignal<readonly string[]>([]);
  const timeText = useTimeText();
  const path = `v1/files?limit=${PAGE}${behind(after.value)}`;
  const { data, error } = useLoaded(() => getJson<FilePage>(path, "nobody"), { when: [path, version] });
  const remove = ({ id, filename }: StoredFile) => {
    if (confirm(`Delete ${oneLine(filename)}? It cannot be brought back.`))
      act(() => call(pathOf(id), { method: "DELETE" }));
  };
  return (
    <section>
      <h3>Files</h3>
      {error !== undefined && <p class="error">{error}</p>}
      {data?.data.length === 0 && <p class="hint">No files. The form above uploads one and makes a batch of it.</p>}
      {data !== undefined && data.data.length > 0 && (
        <Table columns={["Made", "File", "For", "Size", "Kept until", "Do"]}>
          {data.data.map((file) => {
            const name = oneLine(file.filename);
            return (
              <tr key={file.id}>
                <td>{timeText(file.created_at)}</td>
                <td>
                  <a href={`${pathOf(file.id)}/content`} download={name}>
                    {name}
                  </a>
                </td>
                <td>{file.purpose.replaceAll("_", " ")}</td>
                <td>{sizeText(file.bytes)}</td>
                <td>{timeText(file.expires_at)}</td>
                <td>
                  <div class="row">
                    {file.purpose === "batch" && (
                      <button
                        type="button"
                        class="plain"
                        aria-label={`Make a batch: ${name}`}
                        onClick={() => act(() => makeBatchOf(file))}
                      >
                        Make a batch
                      </button>
                    )}
                    <button type="button" class="plain" aria-label={`Delete: ${name}`} onClick={() => remove(file)}>
                      Delete
                    </button>
                  </div>
                </td>
              </tr>
            );
          })}
        </Table>
      )}
      <Pager after={after} last={data?.has_more === true ? (data.last_id ?? undefined) : undefined} />
    </section>
  );
}
