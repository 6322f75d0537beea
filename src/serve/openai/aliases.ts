/** Fields under their names in other servers and earlier versions of vLLM. */
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";

type Field = readonly [name: string, value: unknown];
/** @returns the equivalent fields of this server, with their values */
type Alias = (value: unknown) => readonly Field[];
export type Aliases = Readonly<Record<string, Alias>>;

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;

const structured =
  (kind: string): Alias =>
  (value) => [["structured_outputs", { [kind]: value }]];
const budget = (value: unknown): readonly Field[] => (value == null ? [] : [["thinking_token_budget", value]]);
const thinking = (isOn: boolean): Field => ["chat_template_kwargs", { enable_thinking: isOn }];

/** Throws invalid_parameter: a template would treat any text as true. */
function wrong(param: string, expected: string, value: unknown): never {
  throw new MillraceError("invalid_parameter", `${param}: expected ${expected}, got ${describeValue(value)}`, {
    param,
  });
}

const switchOf =
  (param: string): Alias =>
  (value) =>
    typeof value === "boolean" ? [thinking(value)] : wrong(param, "true or false", value);

export const SAMPLING_ALIASES: Aliases = {
  guided_json: structured("json"),
  guided_regex: structured("regex"),
  guided_choice: structured("choice"),
  guided_grammar: structured("grammar"),
  // SGLang's field.
  regex: structured("regex"),
  ebnf: structured("grammar"),
  repeat_penalty: (value) => [["repetition_penalty", value]],
  n_predict: (value) => [["max_tokens", value === -2 ? -1 : value]],
};

export const CHAT_ALIASES: Aliases = {
  ...SAMPLING_ALIASES,
  // vLLM's field: passages for templates that show them.
  documents: (value) =>
    Array.isArray(value) && value.every(isPlainObject)
      ? [["chat_template_kwargs", { documents: value }]]
      : wrong("documents", "a list of objects", value),
  // The field of Qwen's services.
  enable_thinking: switchOf("enable_thinking"),
  // llama-server's field.
  reasoning_budget: budget,
  thinking_budget_tokens: budget,
  // The field of DeepSeek's and GLM's services, and of Anthropic's clients.
  thinking: (value) => {
    const type = member(value, "type");
    // The model decides, so no field is set.
    if (type === "adaptive") return [];
    if (type === "disabled") return [thinking(false)];
    if (type === "enabled") return [thinking(true), ...budget(member(value, "budget_tokens"))];
    return wrong("thinking", '{"type": "enabled"}, "disabled" or "adaptive"', value);
  },
  // The field of Ollama's clients.
  think: switchOf("think"),
  // The field of OpenRouter's clients. Summaries have no effect.
  reasoning: (value) => {
    const [effort, isOn, isHidden] = ["effort", "enabled", "exclude"].map((name) => member(value, name) ?? undefined);
    if (!isPlainObject(value)) return wrong("reasoning", '{"effort": …} or {"enabled": …}', value);
    for (const [name, given] of Object.entries({ enabled: isOn, exclude: isHidden })) {
      if (given !== undefined && typeof given !== "boolean") wrong(`reasoning.${name}`, "true or false", given);
    }
    const hidden: Field[] = isHidden === true ? [["include_reasoning", false]] : [];
    const shown = [...hidden, ...(isOn === false ? [] : budget(member(value, "max_tokens")))];
    if (isOn !== false && effort !== undefined) return [["reasoning_effort", effort], ...shown];
    return isOn === undefined ? shown : [thinking(isOn === true), ...shown];
  },
};
