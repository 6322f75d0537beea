/** The models that the server lists. */
import { signal } from "@preact/signals";
import { type Asker, call } from "./client.js";
import { session } from "./session.js";

interface Model {
  readonly id: string;
  /** Tokens of prompt and answer together; undefined: the server does not say. */
  readonly max_model_len?: number;
  readonly tasks?: readonly string[];
}

export const models = signal<readonly Model[]>([]);
/** Why the list could not be loaded; undefined: it is loaded or still loading. */
export const modelsError = signal<string | undefined>(undefined);

/** Models that answer chats: encoders make vectors and scores only. */
export const chatModels = (all: readonly Model[]): readonly Model[] =>
  all.filter(({ tasks }) => tasks === undefined || tasks.includes("generate"));

/**
 * The clients' list. A visitor who may not see it as a client, but has signed in as an operator, gets the operators'
 * list.
 */
async function listFor(as: Asker | "nobody"): Promise<Response> {
  if (as !== "operator") return call("v1/models", { as });
  return call("v1/models", { as: "nobody" }).catch(() =>
    // After the refusal the page has asked the server who is signed in.
    session.peek()?.role == null ? call("v1/models") : call("admin/models", { as }),
  );
}

/**
 * @param as the visitor who is asked to sign in if the server refuses the list. For `operator`, the operators' list is
 * enough; a visitor without an operator's session is asked to sign in as a client
 */
export async function loadModels(as: Asker | "nobody"): Promise<void> {
  try {
    models.value = ((await (await listFor(as)).json()) as { readonly data: readonly Model[] }).data;
    modelsError.value = undefined;
  } catch (thrown) {
    modelsError.value = (thrown as Error).message;
  }
}

export const contextOf = (id: string): number | undefined =>
  models.value.find((model) => model.id === id)?.max_model_len;
