/** Models in both vendors' lists, in one object each: OpenAI's fields and Anthropic's. */

interface ModelObject {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  /** Anthropic's fields from here on. */
  readonly type: "model";
  readonly display_name: string;
  readonly created_at: string;
  readonly lifecycle: "active";
}

/** This program's start, in seconds, as its models' unknown dates of creation. */
export const STARTED_AT_SECONDS = Math.floor(performance.timeOrigin / 1000);

export function modelObject(id: string, createdAtSeconds: number): ModelObject {
  return {
    id,
    object: "model",
    created: createdAtSeconds,
    owned_by: "millrace",
    type: "model",
    display_name: id,
    created_at: new Date(createdAtSeconds * 1000).toISOString(),
    lifecycle: "active",
  };
}

/** The context's length under vLLM's and Anthropic's names: a prompt or an answer may fill nearly all of it. */
export function lengthFields(maxModelLen: number): object {
  return { max_model_len: maxModelLen, max_input_tokens: maxModelLen, max_tokens: maxModelLen };
}

/** The complete list, without a next page. */
export function modelListObject(data: readonly ModelObject[]): object {
  return {
    object: "list",
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}
