/** The form that uploads a file and creates a batch from it. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { call } from "../api/client.js";
import { upload } from "../api/upload.js";
import { errorText } from "../parts/load.js";
import { sizeText } from "../parts/size-text.js";
import { beginningOfFile } from "./beginning.js";
import { firstLineOf } from "./lines.js";

export const ENDPOINTS: readonly string[] = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/rerank",
  "/v1/score",
];

export async function makeBatch(fileId: string, endpoint: string): Promise<void> {
  const json = { input_file_id: fileId, endpoint, completion_window: "24h" };
  await call("v1/batches", { method: "POST", json });
}

export function NewBatch({ reload }: { reload(): Promise<unknown> }) {
  const endpoint = useSignal(ENDPOINTS[0]!);
  const problem = useSignal<string | undefined>(undefined);
  /** Sent share of the file; undefined: no upload is running. */
  const sent = useSignal<number | undefined>(undefined);
  const size = useSignal(0);
  const stopping = useRef<AbortController>(undefined);

  const choose = async (file: File | undefined) => {
    problem.value = undefined;
    size.value = file?.size ?? 0;
    if (file === undefined) return;
    const { text, isWhole } = await beginningOfFile(file);
    const first = firstLineOf(text, isWhole);
    problem.value = first.problem;
    if (first.url === undefined) return;
    if (ENDPOINTS.includes(first.url)) endpoint.value = first.url;
    else problem.value = `The first line is for ${first.url.slice(0, 100)}, which batches do not have.`;
  };

  const submit = async (form: HTMLFormElement) => {
    const file = new FormData(form).get("file") as File;
    const body = new FormData();
    // The name and the purpose come first: a server may refuse them before it reads the file.
    body.set("purpose", "batch");
    body.set("file", file);
    stopping.current = new AbortController();
    [problem.value, sent.value] = [undefined, 0];
    try {
      const onProgress = (share: number) => {
        sent.value = share;
      };
      const stored = await upload("v1/files", body, { onProgress, signal: stopping.current.signal });
      await makeBatch((stored as { id: string }).id, endpoint.value);
      form.reset();
      size.value = 0;
    } catch (thrown) {
      problem.value = errorText(thrown);
    } finally {
      sent.value = undefined;
      // The file is on the server even if its batch was refused.
      await reload();
    }
  };

  const share = sent.value;
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void submit(event.currentTarget as HTMLFormElement);
      }}
    >
      <div class="field">
        <label for="batch-file">File of requests (JSON lines)</label>
        <input
          id="batch-file"
          name="file"
          type="file"
          accept=".jsonl,.json,.ndjson,application/jsonl,text/plain"
          required
          onChange={({ currentTarget }) => void choose(currentTarget.files?.[0])}
        />
      </div>
      <div class="field">
        <label for="batch-endpoint">For</label>
        <select
          id="batch-endpoint"
          value={endpoint.value}
          onChange={({ currentTarget }) => {
            endpoint.value = currentTarget.value;
          }}
        >
          {ENDPOINTS.map((path) => (
            <option key={path}>{path}</option>
          ))}
        </select>
      </div>
      <button type="submit" disabled={share !== undefined}>
        Make a batch
      </button>
      {share !== undefined && (
        <span class="row">
          <progress aria-label="Progress of the upload" max={1} value={share} />
          {share < 1 ? `${sizeText(share * size.value)} of ${sizeText(size.value)}` : "the server reads it"}
          <button type="button" class="plain" onClick={() => stopping.current?.abort()}>
            Stop
          </button>
        </span>
      )}
      {problem.value !== undefined && (
        <p class="error" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  );
}
