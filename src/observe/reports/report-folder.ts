/**
 * The reports in a folder, for the app to list, compare and open. They may hold text from models, so a page is served
 * as a
 * document that cannot run code, and an unreadable file is listed with its error.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { constants } from "node:fs";
import { lstat, open, readdir } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { FairThread } from "../../core/fair-thread.js";
import { listBody } from "../../core/list-body.js";
import { formatBytes } from "../../core/quantities.js";
import type { ReadReport } from "./report-thread.js";

const MOST_FILES = 500;
const MOST_SEEN = 20_000;
const MOST_DEPTH = 3;
const MOST_JSON_BYTES = 16 * 2 ** 20;
const MOST_PAGE_BYTES = 32 * 2 ** 20;
/** Validity of a link to a page, which a browser opens without a key. */
const LINK_MS = 3_600_000;

/** The browser runs, loads and sends nothing for the page, except the page's own styles and pictures. */
const PAGE_HEADERS = {
  "Content-Type": "text/html; charset=UTF-8",
  "Content-Security-Policy":
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

interface Found {
  readonly path: string;
  readonly bytes: number;
  readonly changedMs: number;
}

interface Read {
  readonly of: string;
  readonly facts: ReadReport;
}

export class ReportFolder {
  readonly #linkKey = randomBytes(32);
  /** Read files, by path. */
  #read: ReadonlyMap<string, Read> = new Map();
  readonly #thread = new FairThread<Uint8Array, ReadReport>({
    script: "observe/reports/report-thread.js",
    name: "the thread that reads reports",
  });
  #listing: Promise<readonly object[]> | undefined;

  constructor(private readonly folder: string) {}

  /** Newest first. Calls during a reading wait for the same list. */
  async list(): Promise<Response> {
    this.#listing ??= this.#list().finally(() => {
      this.#listing = undefined;
    });
    return Response.json(listBody(await this.#listing), { headers: { "Cache-Control": "no-store" } });
  }

  /** @param until from a link in the list, like `proof` @throws not_found */
  async page(id: string, until: string, proof: string): Promise<Response> {
    const expected = Buffer.from(this.#proof(id, until));
    const got = Buffer.from(proof);
    const isGood = expected.length === got.length && timingSafeEqual(expected, got) && Number(until) > Date.now();
    const page = isGood ? (await filesIn(this.folder)).find(({ path }) => this.#idOf(path) === id) : undefined;
    if (page === undefined || !page.path.endsWith(".html")) {
      const hint = "open the page from the list again: a link is good for an hour";
      throw new MillraceError("not_found", "expected a link of the list of reports, got another or an old one", {
        hint,
      });
    }
    return new Response(await bytesOf(page.path, MOST_PAGE_BYTES), { headers: PAGE_HEADERS });
  }

  async #list(): Promise<readonly object[]> {
    const files = (await filesIn(this.folder)).slice(0, MOST_FILES);
    const pages = files.filter(({ path }) => path.endsWith(".html"));
    const data = files.filter(({ path }) => path.endsWith(".json"));
    const read = new Map<string, Read>();
    const rows: object[] = [];
    const shown = new Set<Found>();
    for (const file of data) {
      const of = `${file.bytes} ${file.changedMs}`;
      const before = this.#read.get(file.path);
      const now = before?.of === of ? before : { of, facts: await this.#factsIn(file) };
      read.set(file.path, now);
      const page = pages.find(({ path }) => belongs(path, file.path));
      if (page !== undefined) shown.add(page);
      rows.push(this.#row(file, now.facts, page));
    }
    this.#read = read;
    // Add pages whose figures are in no file.
    for (const page of pages) if (!shown.has(page)) rows.push(this.#row(page, { kind: "page", figures: [] }, page));
    return rows;
  }

  async #factsIn({ path, bytes: cost }: Found): Promise<ReadReport> {
    try {
      const bytes = await bytesOf(path, MOST_JSON_BYTES);
      return await this.#thread.run(bytes, { tenant: "", cost, moved: [bytes.buffer] });
    } catch (thrown) {
      return { error: (thrown as Error).message };
    }
  }

  #row({ path, changedMs }: Found, facts: object, page: Found | undefined): object {
    const at = new Date(changedMs).toISOString();
    const link = page === undefined ? null : this.#link(this.#idOf(page.path));
    return { id: this.#idOf(path), name: relative(this.folder, path), at, ...facts, page: link };
  }

  #link(id: string): string {
    const until = String(Date.now() + LINK_MS);
    return `watch/reports/${id}/page?until=${until}&proof=${this.#proof(id, until)}`;
  }

  #proof(id: string, until: string): string {
    return createHmac("sha256", this.#linkKey).update(`${id} ${until}`).digest("hex");
  }

  #idOf(path: string): string {
    return createHash("sha256").update(relative(this.folder, path)).digest("hex").slice(0, 16);
  }
}

/**
 * Whether a page shows the file's content: they have the same name, or the page is the report of the tuning and the
 * file
 * its journal.
 */
function belongs(page: string, file: string): boolean {
  if (dirname(page) !== dirname(file)) return false;
  const name = basename(page, ".html");
  return name === basename(file, ".json") || (name === "report" && basename(file) === "tune.json");
}

/** The possible reports, newest first. Links to other folders are not followed. @throws not_found */
async function filesIn(folder: string): Promise<readonly Found[]> {
  const found: Found[] = [];
  let numSeen = 0;
  const walk = async (at: string, depth: number): Promise<void> => {
    for (const entry of await readdir(at, { withFileTypes: true })) {
      if (++numSeen > MOST_SEEN) return;
      const path = join(at, entry.name);
      if (entry.isDirectory() && depth < MOST_DEPTH && !entry.name.startsWith(".")) await walk(path, depth + 1);
      if (!entry.isFile() || !/\.(json|html)$/.test(entry.name)) continue;
      const stat = await statOf(path);
      if (stat !== undefined) found.push({ path, ...stat });
    }
  };
  try {
    await walk(folder, 0);
  } catch (cause) {
    const hint = "make the folder of reports, or name another: reports of a gateway's file, --reports of a server";
    throw new MillraceError("not_found", "expected a folder of reports that can be read, got none", { hint, cause });
  }
  return found.sort((a, b) => b.changedMs - a.changedMs);
}

/** Undefined if the file has disappeared since it was listed. */
async function statOf(path: string): Promise<Omit<Found, "path"> | undefined> {
  const stat = await lstat(path).catch(() => undefined);
  return stat?.isFile() ? { bytes: stat.size, changedMs: stat.mtimeMs } : undefined;
}

/** @throws file_unreadable for a file that is too large, without reading it */
async function bytesOf(path: string, mostBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { size } = await file.stat();
    // A separate copy, which can be moved to a thread.
    if (size <= mostBytes) return new Uint8Array(await file.readFile());
    throw new MillraceError("file_unreadable", `expected at most ${formatBytes(mostBytes)}, got ${formatBytes(size)}`);
  } finally {
    await file.close();
  }
}
