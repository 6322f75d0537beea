/** Batches and files of the signed-in client; for operators, the batches of all tenants. */
import { useSignal } from "@preact/signals";
import { ApiError, getJson, wantedSignIn } from "../api/client.js";
import { session } from "../api/session.js";
import { ActSays, useAct } from "../parts/act.js";
import { useLoaded } from "../parts/load.js";
import { behind, Pager } from "../parts/pager.js";
import { AllBatches } from "./all-batches.js";
import { BatchTable } from "./batch-table.js";
import { type AnthropicBatch, type Batch, type OpenAiBatch, ofAnthropic, ofOpenAi } from "./batch-view.js";
import { FileTable } from "./file-table.js";
import { NewBatch } from "./new-batch.js";

interface Page<T> {
  readonly data: readonly T[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

interface Batches {
  readonly openai: readonly Batch[];
  readonly last: string | undefined;
  /** The latest ones that came by the other API. */
  readonly anthropic: readonly Batch[];
}

const PAGE = 20;
const EVERY_MS = 2000;

/** @returns "refused": the visitor is signed in only as an operator, and batches belong to clients */
async function loadBatches(path: string): Promise<Batches | "refused"> {
  const { role, is_client } = session.peek() ?? {};
  const isOperatorAlone = role != null && is_client !== true;
  try {
    const own = await getJson<Page<OpenAiBatch>>(path, isOperatorAlone ? "nobody" : "client");
    const others = await getJson<Page<AnthropicBatch>>(`v1/messages/batches?limit=${PAGE}`, "nobody");
    const last = own.has_more ? (own.last_id ?? undefined) : undefined;
    return { openai: own.data.map(ofOpenAi), last, anthropic: others.data.map(ofAnthropic) };
  } catch (thrown) {
    if (isOperatorAlone && thrown instanceof ApiError && thrown.status === 401) return "refused";
    throw thrown;
  }
}

function OwnBatches() {
  const after = useSignal<readonly string[]>([]);
  const version = useSignal(0);
  const path = `v1/batches?limit=${PAGE}${behind(after.value)}`;
  const { data, error, reload } = useLoaded(() => loadBatches(path), { when: [path], everyMs: EVERY_MS });
  const changed = async () => {
    version.value++;
    await reload();
  };
  const { problem, said, act } = useAct(changed);
  if (data === "refused") {
    return (
      <p class="hint">
        Batches and files belong to API keys, and yours is an operator's.{" "}
        <button
          type="button"
          class="plain"
          onClick={() => {
            wantedSignIn.value = "client";
          }}
        >
          Sign in with an API key
        </button>
      </p>
    );
  }
  if (data === undefined) return error === undefined ? null : <p class="error">{error}</p>;
  const { openai, last, anthropic } = data;
  return (
    <>
      {error !== undefined && <p class="error">{error}</p>}
      <NewBatch reload={changed} />
      <ActSays problem={problem} said={said} />
      {openai.length + anthropic.length === 0 && (
        <p class="hint">
          No batches. A batch is a file of requests, one a line, such as{" "}
          <code>
            {'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": […]}}'}
          </code>
          . They are answered in idle seats, within a day.
        </p>
      )}
      {openai.length > 0 && <BatchTable batches={openai} act={act} />}
      <Pager after={after} last={last} />
      {anthropic.length > 0 && (
        <section>
          <h3>By Anthropic's API</h3>
          <BatchTable batches={anthropic} act={act} />
        </section>
      )}
      <FileTable version={version.value} act={act} />
    </>
  );
}

export function BatchesPage() {
  // Before the page knows who is signed in, a refusal would ask an operator for a client's key.
  const isLearnt = session.value !== undefined;
  return (
    <div class="page">
      <h2>Batches</h2>
      {isLearnt && <OwnBatches />}
      {session.value?.role != null && <AllBatches />}
    </div>
  );
}
