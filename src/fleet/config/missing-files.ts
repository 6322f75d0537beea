/**
 * Warns of model and certificate files that do not exist on this machine. This is not an error, since the configuration
 * may be for another machine.
 */
import type { Finding } from "./problems.js";
import type { FleetConfig, ModelEntry } from "./schema.js";

/** Whether `model` is a path. Other engines also accept org/name, which they download. */
function isPath({ engine, model }: ModelEntry): boolean {
  if (model === undefined || model.startsWith("hf:")) return false;
  return engine === "millrace" || /^[./~]|\.gguf$/.test(model);
}

export function missingFiles(config: FleetConfig, exists: (path: string) => boolean): Finding[] {
  return [...missingModels(config, exists), ...missingCertificate(config, exists)];
}

function missingCertificate({ sslCertfile, sslKeyfile }: FleetConfig, exists: (path: string) => boolean): Finding[] {
  const files = { "ssl-certfile": sslCertfile, "ssl-keyfile": sslKeyfile };
  return Object.entries(files).flatMap(([key, file]): Finding[] => {
    if (file === undefined || exists(file)) return [];
    const message = `expected a file at ${file}, got no such file here`;
    return [{ code: "file_unreadable", path: [key], message, hint: "check the path and its permissions" }];
  });
}

function missingModels({ models }: FleetConfig, exists: (path: string) => boolean): Finding[] {
  return models.flatMap((each, index): Finding[] => {
    const { model } = each;
    if (model === undefined || !isPath(each) || exists(model)) return [];
    const message = `expected the model ${JSON.stringify(each.name)} at ${model}, got no such file here`;
    const hint = "check the path, which is relative to the working directory; hf:org/repo downloads a model";
    return [{ code: "file_unreadable", path: ["models", index, "model"], message, hint }];
  });
}
