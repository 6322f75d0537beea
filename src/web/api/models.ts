/** The models that the server lists. */
import { signal } from "@preact/signals";
import { type Asker, call } from "./client.js";

interface Model {
  readonly id: string;
  /** Tokens of prompt and answer together; undefined: the server does not say. */
  readonly max_model_len?: number;
  readonly tasks?: readonly string[];
}

export const models = signal<readonly Model[]>([]);
/** Why there is no list. Undefined: there is one, or it is on its way. */
export const modelsError = signal<string | undefined>(undefined);

/** Models that answer chats: encoders make vectors and scores only. */
export const chatModels = (all: readonly Model[]): readonly Model[] =>
  all.filter(({ tasks }) => tasks === undefined || tasks.includes("generate"));

/** @param as who is asked to sign in where the server refuses the list */
export async function loadModels(as: Asker | "nobody"): Promise<void> {
  try {
    models.value = ((await (await call("v1/models", { as })).json()) as { readonly data: readonly Model[] }).data;
    modelsError.value = undefined;
  } catch (thrown) {
    modelsError.value = (thrown as Error).message;
  }
}

export const contextOf = (id: string): number | undefined =>
  models.value.find((model) => model.id === id)?.max_model_len;
