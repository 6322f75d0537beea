/** The header of a GGUF model on the hub, without its weights: it says all that a plan needs before the download. */
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { type HubOptions, questionAccess, resolveUrl } from "./access.js";
import { chooseModel } from "./choose.js";
import { fetchListing, type HubAccess, type HubEntry, hubError, statusError } from "./listing.js";
import { parseHubSpec, refuseUnsafePath } from "./spec.js";

/** Read before the first attempt; vocabularies of 256,000 tokens take about 10 MiB. */
const FIRST_BYTES = 4 * 2 ** 20;
const MOST_BYTES = 32 * 2 ** 20;
/** Bytes to read of every shard after the first, whose header is a table of tensors only. */
const SHARD_BYTES = 2 ** 20;
const MOST_SHARDS = 32;

/**
 * Calls `read` with the path of a file of the model's size: it has the model's first bytes, and zeros for the rest.
 *
 * @param spec hf:org/repo[@revision][:file]
 * @returns undefined: the model is a folder of safetensors, whose config.json says as much
 */
export async function withRemoteHeader<T>(
  spec: string,
  options: HubOptions,
  read: (path: string) => Promise<T>,
): Promise<T | undefined> {
  const access = questionAccess(options);
  const parsed = parseHubSpec(spec);
  const entries = await fetchListing(access, parsed);
  const names = entries.map(({ path }) => path);
  const { files, isFolder } = chooseModel(names, parsed.file, parsed.repo);
  if (isFolder === true) return undefined;
  if (files.length > MOST_SHARDS) {
    throw new MillraceError("gguf_split", `expected at most ${MOST_SHARDS} shards, got ${files.length}`, {
      hint: "pull the model: its memory is known from the files on disk",
    });
  }
  const folder = await mkdtemp(join(tmpdir(), "millrace-header-"));
  try {
    const shards = files.map((file) => entries.find(({ path }) => path === file)!);
    const [first, ...others] = shards.map((entry) => {
      refuseUnsafePath(entry.path);
      return new RemoteFile(access, resolveUrl(access, parsed, entry.path), entry, join(folder, basename(entry.path)));
    });
    for (const other of others) await other.receive(SHARD_BYTES, async () => true);
    let found: { readonly value: T } | undefined;
    await first!.receive(MOST_BYTES, async (isLast) => {
      const value = await read(first!.path).catch((thrown: unknown) => {
        if (isLast) throw thrown;
      });
      found = value === undefined ? undefined : { value };
      return found !== undefined;
    });
    return found?.value;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

class RemoteFile {
  constructor(
    private readonly access: HubAccess,
    private readonly url: string,
    private readonly entry: HubEntry,
    readonly path: string,
  ) {}

  /** @param isEnough asked after the first bytes, after twice as many, and so on, the last time with true */
  async receive(numBytes: number, isEnough: (isLast: boolean) => Promise<boolean>): Promise<void> {
    const { sizeBytes } = this.entry;
    const end = Math.min(numBytes, sizeBytes);
    const handle = await open(this.path, "w");
    try {
      await handle.truncate(sizeBytes);
      let position = 0;
      let next = FIRST_BYTES;
      for await (const chunk of this.#bytes(end)) {
        const part = chunk.subarray(0, end - position);
        await handle.write(part, 0, part.length, position);
        position += part.length;
        if (position >= end) break;
        if (position < next) continue;
        if (await isEnough(false)) return;
        next *= 2;
      }
      await isEnough(true);
    } finally {
      await handle.close();
    }
  }

  /** The file's first bytes, in pieces. */
  async *#bytes(end: number): AsyncGenerator<Uint8Array> {
    const { path: what } = this.entry;
    const { endpoint, fetch } = this.access;
    try {
      const response = await fetch(this.url, { headers: { range: `bytes=0-${end - 1}` } });
      if (response.ok && response.body !== null) yield* response.body;
      else {
        await response.body?.cancel();
        throw statusError(response.status, what, endpoint);
      }
    } catch (thrown) {
      throw hubError(thrown, what, endpoint);
    }
  }
}
