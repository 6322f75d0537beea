/** Writes chosen drafts into a fleet's configuration: a new one, or a preset whose other lines stay unchanged. */
import { isMap, isScalar, isSeq, parseDocument, stringify, type YAMLMap } from "yaml";
import { MillraceError } from "../../core/errors.js";
import type { LocatedModel } from "../../formats/locate-model.js";
import type { configKeys } from "./candidates.js";

type Keys = ReturnType<typeof configKeys>;

const KEY = "speculative-config";
const FLAG = "--speculative-config";
const ALONE = new RegExp(`^${FLAG}$`);
const WITH_VALUE = new RegExp(`^${FLAG}=`);

/** A fleet of one model. */
export const speculationYaml = ({ name, path }: Pick<LocatedModel, "name" | "path">, keys: Keys): string =>
  stringify({ models: [{ name, model: path, options: { [KEY]: keys } }] });

/**
 * The preset's text with these drafts, for the model of that name if it has several.
 * @param because one line for the preset's paragraph "# speculation: …" Throws invalid_option for a file that is not a
 *   fleet's, and for a model of another engine.
 */
export function presetWith(text: string, path: string, name: string, keys: Keys, because: string): string {
  const refuse = (expected: string, got: string, hint: string): never => {
    throw new MillraceError("invalid_option", `--preset: expected ${expected} in ${path}, got ${got}`, { hint });
  };
  const document = parseDocument(text);
  const [error] = document.errors;
  const isYours = "give a file as those in presets/, or as millrace plan --yaml writes it";
  if (error !== undefined) return refuse("YAML", error.message.split("\n")[0]!, isYours);
  const models = document.get("models");
  if (!isSeq(models)) return refuse("a list of models", "none", isYours);
  const maps = models.items.filter((each): each is YAMLMap => isMap(each));
  const model = maps.length === 1 ? maps[0] : maps.find((each) => each.get("name") === name);
  if (model === undefined) {
    return refuse(`one model, or one with the name ${name}`, `${maps.length} models`, "rename the model in the file");
  }
  const engine = model.get("engine") ?? "millrace";
  if (engine !== "millrace") {
    return refuse("the engine millrace", String(engine), "drafts that pay in one engine need not pay in another");
  }
  const args = model.get("args");
  const isFlag = (each: unknown, form: RegExp): boolean => isScalar(each) && form.test(String(each.value));
  const flag = isSeq(args) ? args.items.findIndex((each) => isFlag(each, ALONE)) : -1;
  const joined = isSeq(args) ? args.items.findIndex((each) => isFlag(each, WITH_VALUE)) : -1;
  if (isSeq(args) && flag >= 0) args.set(flag + 1, JSON.stringify(keys));
  else if (isSeq(args) && joined >= 0) args.set(joined, `${FLAG}=${JSON.stringify(keys)}`);
  else if (isMap(model.get("options"))) model.setIn(["options", KEY], document.createNode(keys));
  else model.set("options", document.createNode({ [KEY]: keys }));
  return withReason(document.toString({ lineWidth: 0 }), because);
}

/** A paragraph of a preset's comment: its first line and the indented lines after it. */
const REASON = /^# speculation: .*\n(?:# {3}.*\n)*/m;

function withReason(text: string, because: string): string {
  const line = `# speculation: ${because}\n`;
  return REASON.test(text) ? text.replace(REASON, () => line) : line + text;
}
