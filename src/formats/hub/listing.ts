/**
 * A repository's files with sizes and checksums: asked of the hub, and kept in the cache for starts without a network.
 */
import { mkdir, readFile, rename, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { HubSpec } from "./spec.js";

const ENTRY = z.object({
  path: z.string(),
  sizeBytes: z.int().nonnegative(),
  /** Present for files in large-file storage, where all published weights are. */
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  /** Git's name of the content, or of what points to it in large-file storage; older caches lack it. */
  oid: z.string().optional(),
});
const LISTING = z.array(ENTRY);

export type HubEntry = z.infer<typeof ENTRY>;

export interface HubAccess {
  readonly endpoint: string;
  /** Authorises requests to the endpoint. */
  readonly fetch: typeof fetch;
}

/**
 * A `fetch` that carries the token to the endpoint and nowhere else. The hub's library takes tokens too, but only of
 * its own site's form, and sends them wherever a listing's next page points.
 */
export function authorised(fetchFn: typeof fetch, endpoint: string, token: string | undefined): typeof fetch {
  if (token === undefined || token === "") return fetchFn;
  const { origin } = new URL(endpoint);
  return (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    if (new URL(url).origin !== origin) return fetchFn(input, init);
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${token}`);
    return fetchFn(input, { ...init, headers });
  };
}

/** Whether two listings speak of the same bytes. */
export function isSameContent(a: HubEntry, b: HubEntry): boolean {
  return a.sizeBytes === b.sizeBytes && (a.sha256 ?? a.oid) === (b.sha256 ?? b.oid);
}

export async function fetchListing(access: HubAccess, { repo, revision }: HubSpec): Promise<readonly HubEntry[]> {
  // Loaded here: a start from a local file does without the library.
  const { listFiles } = await import("@huggingface/hub");
  const entries: HubEntry[] = [];
  try {
    const files = listFiles({
      repo: { type: "model", name: repo },
      // The library leaves the slashes of a revision such as refs/pr/1 as they are, and the hub then takes them for a
      // path's.
      revision: encodeURIComponent(revision),
      recursive: true,
      hubUrl: access.endpoint,
      fetch: access.fetch,
    });
    for await (const { type, path, size, lfs, oid } of files) {
      if (type !== "file") continue;
      const sha256 = lfs?.oid.replace(/^sha256:/, "");
      entries.push(ENTRY.parse({ path, sizeBytes: lfs?.size ?? size, sha256, oid }));
    }
  } catch (thrown) {
    throw hubError(thrown, `the files of ${repo} at ${revision}`, access.endpoint);
  }
  return entries;
}

/** @param what names the requested thing in the message */
export function hubError(thrown: unknown, what: string, endpoint: string): MillraceError {
  if (thrown instanceof MillraceError) return thrown;
  const status = thrown instanceof Error && "statusCode" in thrown ? thrown.statusCode : undefined;
  if (typeof status === "number") return statusError(status, what, endpoint);
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? `: ${thrown.cause.message}` : "";
  const got = thrown instanceof Error ? `${thrown.message}${cause}` : String(thrown);
  return new MillraceError("hub_unreachable", `expected ${what} from ${endpoint}, got ${got}`, {
    hint: "check the network, or HF_ENDPOINT where a mirror is used; a model that was downloaded whole needs neither",
    cause: thrown,
  });
}

export function statusError(status: number, what: string, endpoint: string): MillraceError {
  const message = `expected ${what} from ${endpoint}, got status ${status}`;
  // The hub answers 401 for repositories that do not exist, too.
  if (status === 401 || status === 403) {
    return new MillraceError("hub_not_found", message, {
      hint: "check the name; a private or gated model wants a token in HF_TOKEN that was granted access",
    });
  }
  if (status === 404) return new MillraceError("hub_not_found", message, { hint: "check the name" });
  return new MillraceError("hub_unreachable", message, { hint: "try again later" });
}

export const LISTING_NAME = "listing.json";

/** Undefined when there is none, or none that can be trusted. */
export async function readCachedListing(folder: string): Promise<readonly HubEntry[] | undefined> {
  try {
    return LISTING.parse(JSON.parse(await readFile(join(folder, LISTING_NAME), "utf8")));
  } catch {
    return undefined;
  }
}

/** Its date says when the model was last used; a cache that cannot be written to goes without. */
export async function touchCachedListing(folder: string): Promise<void> {
  const now = new Date();
  await utimes(join(folder, LISTING_NAME), now, now).catch(() => {});
}

export async function writeCachedListing(folder: string, entries: readonly HubEntry[]): Promise<void> {
  const path = join(folder, LISTING_NAME);
  await inCache(path, async () => {
    await mkdir(dirname(path), { recursive: true });
    const temporary = `${path}.${process.pid}.part`;
    await writeFile(temporary, `${JSON.stringify(entries, undefined, 1)}\n`);
    await rename(temporary, path);
  });
}

/** Runs a file operation of the cache; its failures (no space, no permission) are the user's to solve. */
export async function inCache<T>(path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (thrown) {
    if (thrown instanceof MillraceError) throw thrown;
    const got = thrown instanceof Error ? thrown.message : String(thrown);
    throw new MillraceError("hub_cache", `expected to keep ${path} in the model cache, got ${got}`, {
      hint: "free space or permissions there, or point MILLRACE_CACHE at another folder",
      cause: thrown,
    });
  }
}
