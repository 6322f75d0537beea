/**
 * Downloads one file: continues a `.part` file by range requests, checks size and sha256, and renames it into place.
 */
import { createHash, type Hash } from "node:crypto";
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import { type HubAccess, type HubEntry, hubError, inCache, statusError } from "./listing.js";

/** Progress over all files of a model together. */
export interface DownloadProgress {
  /** The one on its way. */
  readonly file: string;
  readonly receivedBytes: number;
  readonly totalBytes: number;
}

interface DownloadOptions {
  /** Told the bytes of this file that are here. */
  readonly onProgress: (receivedBytes: number) => void;
  readonly signal: AbortSignal | undefined;
  /** Attempts in a row that bring no byte, after which the download is given up. */
  readonly maxFruitlessAttempts: number;
  /** Before the second attempt; doubles with each fruitless one. */
  readonly retryDelayMs: number;
}

interface Part {
  readonly handle: FileHandle;
  /** Hash of the bytes in the file so far. */
  hash: Hash;
  numBytes: number;
}

/**
 * The hub's library can list and describe files, but its downloads neither continue a broken one nor compare checksums,
 * hence the plain requests here. No other process may fetch the same file meanwhile: the caller holds a lock.
 */
export async function downloadFile(
  access: HubAccess,
  url: string,
  entry: HubEntry,
  target: string,
  options: DownloadOptions,
): Promise<void> {
  const partPath = partPathOf(target, entry);
  const part = await inCache(partPath, () => openPart(partPath, entry.sizeBytes));
  try {
    await receiveAll(access, url, entry, part, options);
    await inCache(partPath, () => part.handle.sync());
    // The checksum covers the received bytes; the size shows that the file holds these and no others.
    const { size } = await inCache(partPath, () => part.handle.stat());
    if (size !== part.numBytes) throw corrupt(entry, `${part.numBytes} bytes`, `${size}`);
  } finally {
    await part.handle.close();
  }
  await verify(part, entry, partPath);
  await inCache(target, () => rename(partPath, target));
}

/** The content's name is in the part's, so that a file changed on the hub is not glued to the start of the old one. */
export const partPathOf = (target: string, { sha256, sizeBytes }: HubEntry): string =>
  `${target}.${(sha256 ?? String(sizeBytes)).slice(0, 12)}.part`;

async function openPart(path: string, sizeBytes: number): Promise<Part> {
  await mkdir(dirname(path), { recursive: true });
  const handle = await open(path, "a+");
  const part: Part = { handle, hash: createHash("sha256"), numBytes: 0 };
  try {
    const { size } = await handle.stat();
    if (size > sizeBytes) await handle.truncate(0);
    else for await (const chunk of handle.createReadStream({ start: 0, autoClose: false })) addToHash(part, chunk);
  } catch (thrown) {
    await handle.close();
    throw thrown;
  }
  return part;
}

function addToHash(part: Part, chunk: Uint8Array): void {
  part.hash.update(chunk);
  part.numBytes += chunk.length;
}

async function receiveAll(
  access: HubAccess,
  url: string,
  entry: HubEntry,
  part: Part,
  options: DownloadOptions,
): Promise<void> {
  const report = () => options.onProgress(part.numBytes);
  let numFruitless = 0;
  report();
  while (part.numBytes < entry.sizeBytes) {
    const numBytesBefore = part.numBytes;
    try {
      await receiveOnce(access, url, entry, part, report);
    } catch (thrown) {
      const error = hubError(thrown, entry.path, access.endpoint);
      numFruitless = part.numBytes > numBytesBefore ? 0 : numFruitless + 1;
      if (error.code !== "hub_unreachable" || numFruitless >= options.maxFruitlessAttempts) throw error;
      await wait(options.retryDelayMs * 2 ** numFruitless, undefined, { signal: options.signal });
    }
  }
}

/** Returns when the file is complete, throws when the connection ends before. */
async function receiveOnce(
  access: HubAccess,
  url: string,
  entry: HubEntry,
  part: Part,
  report: () => void,
): Promise<void> {
  const response = await access.fetch(url, { headers: { range: `bytes=${part.numBytes}-` } });
  if (!response.ok || response.body === null) {
    await response.body?.cancel();
    throw statusError(response.status, entry.path, access.endpoint);
  }
  if (!continuesAt(response, part.numBytes)) await restart(part);
  for await (const chunk of response.body) {
    if (part.numBytes + chunk.length > entry.sizeBytes) {
      await inCache(entry.path, () => restart(part));
      throw corrupt(entry, `${entry.sizeBytes} bytes`, "more");
    }
    await inCache(entry.path, () => part.handle.appendFile(chunk));
    addToHash(part, chunk);
    report();
  }
  if (part.numBytes < entry.sizeBytes) {
    throw new Error(`the end of the connection after ${part.numBytes} of ${entry.sizeBytes} bytes`);
  }
}

function continuesAt(response: Response, offset: number): boolean {
  return response.status === 206 && response.headers.get("content-range")?.startsWith(`bytes ${offset}-`) === true;
}

/** The server sent the file from its start, whatever was asked. */
async function restart(part: Part): Promise<void> {
  await part.handle.truncate(0);
  part.hash = createHash("sha256");
  part.numBytes = 0;
}

async function verify(part: Part, entry: HubEntry, partPath: string): Promise<void> {
  const sha256 = part.hash.digest("hex");
  if (entry.sha256 === undefined || entry.sha256 === sha256) return;
  await inCache(partPath, () => rm(partPath));
  throw corrupt(entry, `sha256 ${entry.sha256}`, sha256);
}

function corrupt(entry: HubEntry, expected: string, got: string): MillraceError {
  return new MillraceError("hub_checksum", `expected ${entry.path} with ${expected}, got ${got}`, {
    hint: "the download was damaged on its way or changed meanwhile, and was discarded; try again",
  });
}
