/** The models that the server lists. */
import { signal } from "@preact/signals";
import { type Asker, call } from "./client.js";
import { session } from "./session.js";

interface Model {
  readonly id: string;
  /** Most tokens of prompt and answer together; undefined: the server does not report it. */
  readonly max_model_len?: number;
  readonly tasks?: readonly string[];
}

export const models = signal<readonly Model[]>([]);
/** The reason why the list could not be loaded; undefined: it is loaded or still loading. */
export const modelsError = signal<string | undefined>(undefined);

/** Models that answer chats; encoders only produce vectors and scores. */
export const chatModels = (all: readonly Model[]): readonly Model[] =>
  all.filter(({ tasks }) => tasks === undefined || tasks.includes("generate"));

/** The clients' list, or the operators' list for a visitor who is signed in only as an operator. */
async function listFor(as: Asker | "nobody"): Promise<Response> {
  if (as !== "operator") return call("v1/models", { as });
  return call("v1/models", { as: "nobody" }).catch(() =>
    // By the time of the refusal the page knows who is signed in.
    session.peek()?.role == null ? call("v1/models") : call("admin/models", { as }),
  );
}

/**
 * @param as the sign-in to ask for if the server refuses the list. For `operator`, the operators' list suffices; a
 *   visitor without an operator's session is asked to sign in as a client
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
