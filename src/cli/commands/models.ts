/** `millrace pull`, `list` and `rm`: the models on this machine's disk. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { cacheFolder } from "../../core/cache-folder.js";
import { MillraceError } from "../../core/errors.js";
import { formatBytes } from "../../core/quantities.js";
import { silentStages } from "../../core/stages.js";
import type { StoredModel } from "../../formats/hub/stored.js";
import { listBundled, locateModel } from "../../formats/locate-model.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

interface JsonFlag {
  readonly json?: boolean;
}

const HUB_ARGUMENT = "hf:org/repo[@revision][:file or quantisation]";

export function pullCommand(): Command {
  return new Command("pull")
    .description("Download a model from the hub; an interrupted download resumes.")
    .argument("<name>", HUB_ARGUMENT)
    .option("--json", "print one JSON object")
    .action(runPull);
}

export function listCommand(): Command {
  return new Command("list")
    .alias("ls")
    .description("List the models on this machine, downloaded and bundled.")
    .option("--json", "print one JSON object")
    .action(runList);
}

export function rmCommand(): Command {
  return new Command("rm")
    .description("Remove a downloaded model, by its name in the list.")
    .argument("<name>", HUB_ARGUMENT)
    .option("--json", "print one JSON object")
    .action(runRemove);
}

/** Accepts org/repo as well as hf:org/repo. */
function hubSpec(name: string): string {
  if (name.startsWith("hf:")) return name;
  if (/^[\w.-]+\/[\w.-]+([@:].*)?$/.test(name) && !existsSync(name)) return `hf:${name}`;
  throw new MillraceError("hub_spec", `expected ${HUB_ARGUMENT}, got ${JSON.stringify(name)}`, {
    hint: "a local file needs no download: millrace serve --model FILE",
  });
}

async function runPull(name: string, { json = false }: JsonFlag): Promise<void> {
  const spec = hubSpec(name);
  const isQuiet = json && !process.stderr.isTTY;
  const { path } = await locateModel(spec, isQuiet ? silentStages : stagesTo(process.stderr));
  const text = `${path}\n\n  to serve it: millrace serve --model ${spec}`;
  process.stdout.write(`${json ? jsonText({ name: spec, path }) : text}\n`);
}

async function runList({ json = false }: JsonFlag): Promise<void> {
  const { listStored } = await import("../../formats/hub/stored.js");
  const bundled = listBundled();
  const stored = await listStored();
  const record = ({ lastUsedMs, ...rest }: StoredModel, isBundled: boolean) => ({
    ...rest,
    lastUsed: new Date(lastUsedMs).toISOString(),
    isBundled,
  });
  if (json) {
    const models = [...stored.map((model) => record(model, false)), ...bundled.map((model) => record(model, true))];
    process.stdout.write(`${jsonText({ folder: join(cacheFolder(), "hub"), models })}\n`);
    return;
  }
  const row = (model: StoredModel, note: string): readonly string[] => [
    model.name,
    model.format,
    formatBytes(model.numBytes),
    new Date(model.lastUsedMs).toISOString().slice(0, 16).replace("T", " "),
    note,
  ];
  const rows = [
    ...stored.map((model) => row(model, model.isComplete ? "" : "incomplete; pull resumes it")),
    ...bundled.map((model) => row(model, `bundled: ${model.path}`)),
  ];
  process.stdout.write(`${formatTable([["model", "format", "size", "last used (UTC)", ""], ...rows])}\n`);
}

async function runRemove(name: string, { json = false }: JsonFlag): Promise<void> {
  const { removeStored } = await import("../../formats/hub/stored.js");
  if (listBundled().some((model) => model.name === name || model.path === name)) {
    throw new MillraceError("model_not_found", `expected a downloaded model, got ${name}, which is bundled`, {
      hint: "`millrace list` shows the names of downloaded models",
    });
  }
  const spec = hubSpec(name);
  const onWait = (): void => void process.stderr.write("another process is downloading it; waiting\n");
  const removed = await removeStored(spec, cacheFolder(), onWait);
  const text = `removed ${spec}: ${removed.numFiles} files, ${formatBytes(removed.numBytes)}`;
  process.stdout.write(`${json ? jsonText({ name: spec, ...removed }) : text}\n`);
}
