/** The parsers of tool calls and thoughts that a plan sets for an engine, and the reasons for them. */
import { isLlamaCpp, type PlannedEngine } from "./data/engines.js";
import { CALL_PARSERS, PARSER_FLAGS, THOUGHT_PARSERS } from "./data/parsers.js";
import type { PlannedModel } from "./planned-model.js";
import type { Choice } from "./request.js";

const callParserOf = ({ toolCalls }: PlannedModel, engine: PlannedEngine): string | undefined =>
  toolCalls === undefined ? undefined : CALL_PARSERS[toolCalls][engine];

const thoughtParserOf = ({ thoughts }: PlannedModel, engine: PlannedEngine): string | undefined =>
  thoughts === undefined ? undefined : THOUGHT_PARSERS[thoughts][engine];

/** These arguments follow the fleet's flags, as a model's `args` do. */
export function parserArguments(model: PlannedModel, engine: PlannedEngine): readonly string[] {
  // Older builds need it to read tool calls; newer ones have it on by default.
  if (engine === "llama-server") return ["--jinja"];
  const flags = PARSER_FLAGS[engine];
  if (flags === undefined) return [];
  const [calls, thoughts] = [callParserOf(model, engine), thoughtParserOf(model, engine)];
  return [
    ...(calls === undefined ? [] : [...flags.calls, calls]),
    ...(thoughts === undefined ? [] : [...flags.thoughts, thoughts]),
  ];
}

export function parserChoices(model: PlannedModel, engine: PlannedEngine): readonly Choice[] {
  const flags = PARSER_FLAGS[engine];
  // TGI constrains tool calls by its own grammar, and has no parser of thoughts.
  if (engine === "tgi") {
    const calls = { about: "tool calls", choice: "read", because: "tgi reads them by a grammar of its own" };
    const thoughts = { about: "thoughts", choice: "not read", because: "tgi has no parser: they stay in the answer" };
    return model.thoughts === undefined ? [calls] : [calls, thoughts];
  }
  if (flags === undefined) {
    const by = isLlamaCpp(engine) ? "a parser that it makes of the model's template" : "the model's own template";
    return [{ about: "tool calls and thoughts", choice: "read", because: `${engine} reads them by ${by}` }];
  }
  const of = (about: string, parser: string | undefined, flag: string, without: string): Choice =>
    parser === undefined
      ? {
          about,
          choice: "not read",
          because: `no parser of ${engine} for this model's ${about} is known here, and without one ${without}: name one among the model's args (${flag})`,
        }
      : { about, choice: parser, because: `${flag} of ${engine} for this model's family; without a parser ${without}` };
  const calls = of("tool calls", callParserOf(model, engine), flags.calls.at(-1)!, "tools are refused or ignored");
  // Most models without a known form give no thoughts.
  if (model.thoughts === undefined) return [calls];
  return [calls, of("thoughts", thoughtParserOf(model, engine), flags.thoughts.at(-1)!, "they stay in the answer")];
}
