/** Fields under the names that other servers and earlier versions of vLLM have for them. */
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "./is-plain-object.js";

/** @returns the field of this server that means the same, with its value */
type Alias = (value: unknown) => readonly [name: string, value: unknown];
export type Aliases = Readonly<Record<string, Alias>>;

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;

const structured =
  (kind: string): Alias =>
  (value) => ["structured_outputs", { [kind]: value }];
const thinking = (isOn: boolean): ReturnType<Alias> => ["chat_template_kwargs", { enable_thinking: isOn }];

/** Throws invalid_parameter: a template would take any text for true. */
function wrong(param: string, expected: string, value: unknown): never {
  throw new MillraceError("invalid_parameter", `${param}: expected ${expected}, got ${describeValue(value)}`, {
    param,
  });
}

const switchOf =
  (param: string): Alias =>
  (value) =>
    typeof value === "boolean" ? thinking(value) : wrong(param, "true or false", value);

export const SAMPLING_ALIASES: Aliases = {
  guided_json: structured("json"),
  guided_regex: structured("regex"),
  guided_choice: structured("choice"),
  guided_grammar: structured("grammar"),
  repeat_penalty: (value) => ["repetition_penalty", value],
  n_predict: (value) => ["max_tokens", value === -2 ? -1 : value],
};

export const CHAT_ALIASES: Aliases = {
  ...SAMPLING_ALIASES,
  // Qwen's services.
  enable_thinking: switchOf("enable_thinking"),
  // DeepSeek's and GLM's services, and Anthropic's clients. Their budgets of thoughts have no effect, as in /v1/messages.
  thinking: (value) => {
    const type = member(value, "type");
    // The model decides.
    if (type === "adaptive") return ["chat_template_kwargs", {}];
    if (type === "enabled" || type === "disabled") return thinking(type === "enabled");
    return wrong("thinking", '{"type": "enabled"}, "disabled" or "adaptive"', value);
  },
  // Ollama's clients.
  think: switchOf("think"),
  // OpenRouter's clients. Budgets of thoughts and summaries have no effect.
  reasoning: (value) => {
    const [effort, isOn] = [member(value, "effort"), member(value, "enabled")];
    if (!isPlainObject(value)) return wrong("reasoning", '{"effort": …} or {"enabled": …}', value);
    if (isOn !== undefined && isOn !== null && typeof isOn !== "boolean")
      return wrong("reasoning.enabled", "true or false", isOn);
    if (member(value, "exclude") === true)
      return wrong("reasoning.exclude", "false (include_reasoning hides thoughts)", true);
    if (isOn === false) return thinking(false);
    if (effort !== undefined && effort !== null) return ["reasoning_effort", effort];
    return isOn === true ? thinking(true) : ["chat_template_kwargs", {}];
  },
};
