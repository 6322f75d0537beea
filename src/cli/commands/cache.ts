/** `millrace cache`: lists and removes packed weights on disk. */

import { Command } from "commander";
import type { CachedPack, PackCache } from "../../backend/create/create-backend.js";
import { packFolder } from "../../core/cache-folder.js";
import { MillraceError } from "../../core/errors.js";
import { formatBytes } from "../../core/quantities.js";
import { formatTable } from "../output/format.js";

interface CacheFlags {
  readonly json?: boolean;
}

export function cacheCommand(): Command {
  const clear = new Command("clear")
    .description("Remove the packed weights of a model (by its name, or eight digits of its key), or of all models.")
    .argument("[name]")
    .option("--json", "print one JSON object")
    // The parent command also has --json, and takes it wherever it stands.
    .action(async (name: string | undefined, _: CacheFlags, own: Command) =>
      runClear(await openCache(), name, own.optsWithGlobals()),
    );
  return new Command("cache")
    .description("List the packed weights that make later starts fast.")
    .option("--json", "print one JSON object")
    .action(async (flags: CacheFlags) => runList(await openCache(), flags))
    .addCommand(clear);
}

async function openCache(): Promise<PackCache> {
  const { openPackCache } = await import("../../backend/create/create-backend.js");
  return openPackCache(packFolder());
}

function runList(cache: PackCache, flags: CacheFlags): void {
  const packs = cache.list();
  print(flags, { folder: packFolder(), packs: packs.map(recordOf) }, () => {
    if (packs.length === 0) return `${packFolder()} holds no packed weights`;
    const rows = packs.map(({ key, model, numBytes, lastUsedMs, isCurrent }) => [
      model,
      formatBytes(numBytes),
      new Date(lastUsedMs).toISOString().slice(0, 16).replace("T", " "),
      key.slice(0, 8),
      isCurrent ? "" : "from another version",
    ]);
    return `${formatTable([["model", "size", "last used (UTC)", "key", ""], ...rows])}\n${packFolder()}: ${total(packs)}`;
  });
}

function runClear(cache: PackCache, name: string | undefined, flags: CacheFlags): void {
  const known = cache.list();
  const cleared = cache.clear(name);
  if (name !== undefined && cleared.length === 0) {
    const got = known.length === 0 ? "none at all" : known.map(({ model }) => model).join(", ");
    throw new MillraceError("pack_unknown", `expected packed weights of ${name}, got ${got}`, {
      hint: "`millrace cache` lists models and keys",
    });
  }
  print(flags, { cleared: cleared.map(recordOf) }, () => `removed ${cleared.length}: ${total(cleared)}`);
}

function recordOf({ lastUsedMs, ...rest }: CachedPack): object {
  return { ...rest, lastUsed: new Date(lastUsedMs).toISOString() };
}

function total(packs: readonly CachedPack[]): string {
  return formatBytes(packs.reduce((sum, { numBytes }) => sum + numBytes, 0));
}

function print(flags: CacheFlags, record: object, text: () => string): void {
  process.stdout.write(`${flags.json ? JSON.stringify(record) : text()}\n`);
}
