/** Models that a configuration looks for on this machine and that are not here. No mistake in itself: the file may be meant for another machine. */
import type { Finding } from "./problems.js";
import type { FleetConfig, ModelEntry } from "./schema.js";

/** What other engines fetch by themselves looks like a path too, org/name, unless it is plainly one. */
function isPath({ engine, model }: ModelEntry): boolean {
  if (model === undefined || model.startsWith("hf:")) return false;
  return engine === "millrace" || /^[./~]|\.gguf$/.test(model);
}

export function missingFiles({ models }: FleetConfig, exists: (path: string) => boolean): Finding[] {
  return models.flatMap((each, index): Finding[] => {
    const { model } = each;
    if (model === undefined || !isPath(each) || exists(model)) return [];
    const message = `expected the model ${JSON.stringify(each.name)} at ${model}, got no such file here`;
    const hint = "check the path, which is relative to where millrace is started; hf:org/repo fetches a model";
    return [{ code: "file_unreadable", path: ["models", index, "model"], message, hint }];
  });
}
