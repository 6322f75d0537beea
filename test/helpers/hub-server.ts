/** A local model hub: the listing and download endpoints of huggingface.co, with faults to order. */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface HubRepo {
  /** Path → content. */
  readonly files: Readonly<Record<string, Uint8Array>>;
  /** "main" alone by default. */
  readonly revisions?: readonly string[];
  /** Answers 401 to requests without this token. */
  readonly token?: string;
}

interface HubRequest {
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/** What goes wrong with the next downloads; each fault is used up once. */
type HubFault =
  | { readonly kind: "cut"; readonly afterBytes: number }
  | { readonly kind: "corrupt" }
  | { readonly kind: "status"; readonly status: number }
  /** Sends the first bytes and then nothing, until the client leaves. */
  | { readonly kind: "stall"; readonly afterBytes: number }
  /** Answers a range request with the whole file, as a server without ranges does. */
  | { readonly kind: "ignore-range" }
  | { readonly kind: "too-long" };

export interface HubServer {
  readonly endpoint: string;
  /** Every request so far, oldest first. */
  readonly requests: HubRequest[];
  readonly faults: HubFault[];
  close(): Promise<void>;
}

export interface HubServerOptions {
  /** Content is served from a second origin behind a redirect, as the public hub does. */
  readonly hasContentOrigin?: boolean;
  /** Entries per page of a listing; all by default. */
  readonly pageSize?: number;
}

type Repos = Record<string, HubRepo>;

/** @example const hub = await startHubServer({ "org/repo": { files: { "a.gguf": bytes } } }) */
export async function startHubServer(repos: Repos, options: HubServerOptions = {}): Promise<HubServer> {
  const requests: HubRequest[] = [];
  const faults: HubFault[] = [];
  let contentEndpoint = "";
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://hub");
    requests.push({
      method: request.method ?? "",
      path: url.pathname,
      range: request.headers.range,
      authorization: request.headers.authorization,
    });
    const parts = url.pathname.split("/").slice(1).map(decodeURIComponent);
    if (parts[0] === "api" && parts.length === 2) answerSearch(repos, url, response);
    else if (parts[0] === "api") answerTree(repos, parts, url, request, response, options.pageSize);
    else if (parts[0] === "content") sendContent(contentOf(repos, parts.slice(1)), request, response, faults.shift());
    else answerResolve(repos, parts, request, response, contentEndpoint, faults);
  };
  const servers = [createServer(handle), ...(options.hasContentOrigin ? [createServer(handle)] : [])];
  const endpoints = await Promise.all(servers.map(listen));
  contentEndpoint = endpoints[1] ?? "";
  return { endpoint: endpoints[0]!, requests, faults, close: async () => void (await Promise.all(servers.map(close))) };
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** The repo, or undefined after an answer of 401 or 404 was sent, as the public hub words them. */
function authorisedRepo(
  repos: Repos,
  name: string,
  revision: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): HubRepo | undefined {
  const repo = repos[name];
  const isAllowed = repo?.token === undefined || request.headers.authorization === `Bearer ${repo.token}`;
  if (repo === undefined || !isAllowed) {
    sendJson(response, 401, { error: "Invalid username or password." }, { "x-error-code": "RepoNotFound" });
    return undefined;
  }
  if (!(repo.revisions ?? ["main"]).includes(revision ?? "")) {
    sendJson(response, 404, { error: `Invalid rev id: ${revision}` }, { "x-error-code": "RevisionNotFound" });
    return undefined;
  }
  return repo;
}

/** GET /api/models: repositories whose names hold the words, and that have a file of the form that is asked for. */
function answerSearch(repos: Repos, { searchParams }: URL, response: ServerResponse): void {
  const words = (searchParams.get("search") ?? "").toLowerCase();
  const ends = searchParams.getAll("filter").map((tag) => `.${tag}`);
  const found = Object.entries(repos).filter(([name, { files, token }]) => {
    const hasForm = ends.every((end) => Object.keys(files).some((file) => file.endsWith(end)));
    return token === undefined && hasForm && name.toLowerCase().includes(words);
  });
  const entries = found.map(([id], index) => ({
    _id: String(index),
    id,
    private: false,
    gated: false,
    downloads: 1000 - index,
    likes: index,
    lastModified: "2026-01-02T03:04:05.000Z",
  }));
  sendJson(response, 200, entries.slice(0, Number(searchParams.get("limit") ?? 100)));
}

/** GET /api/models/:org/:repo/tree/:revision */
function answerTree(
  repos: Repos,
  [, kind, org, name, verb, revision]: readonly string[],
  url: URL,
  request: IncomingMessage,
  response: ServerResponse,
  pageSize = Number.POSITIVE_INFINITY,
): void {
  if (kind !== "models" || verb !== "tree") {
    sendJson(response, 404, { error: "Not Found" });
    return;
  }
  const repo = authorisedRepo(repos, `${org}/${name}`, revision, request, response);
  if (repo === undefined) return;
  const first = Number(url.searchParams.get("cursor") ?? 0);
  const entries = Object.entries(repo.files).map(([path, bytes]) => treeEntry(path, bytes));
  const headers: Record<string, string> = {};
  if (first + pageSize < entries.length) {
    url.searchParams.set("cursor", String(first + pageSize));
    headers.link = `<http://${request.headers.host}${url.pathname}${url.search}>; rel="next"`;
  }
  sendJson(response, 200, entries.slice(first, first + pageSize), headers);
}

/** GGUF files lie in large-file storage and carry their sha256; others only have a git object id. */
function treeEntry(path: string, bytes: Uint8Array): object {
  const entry = { type: "file", path, size: bytes.length, oid: sha1(bytes) };
  return isLarge(path) ? { ...entry, lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 134 } } : entry;
}

/** GET or HEAD /:org/:repo/resolve/:revision/:path */
function answerResolve(
  repos: Repos,
  [org, name, verb, revision, ...rest]: readonly string[],
  request: IncomingMessage,
  response: ServerResponse,
  contentEndpoint: string,
  faults: HubFault[],
): void {
  const repo = authorisedRepo(repos, `${org}/${name}`, revision, request, response);
  if (repo === undefined) return;
  const path = rest.join("/");
  const bytes = verb === "resolve" ? repo.files[path] : undefined;
  if (bytes === undefined) {
    sendJson(response, 404, { error: "Entry not found" }, { "x-error-code": "EntryNotFound" });
    return;
  }
  if (contentEndpoint === "") {
    sendContent(bytes, request, response, faults.shift());
    return;
  }
  const location = `${contentEndpoint}/content/${org}/${name}/${rest.map(encodeURIComponent).join("/")}`;
  response.writeHead(302, { location, "x-linked-size": bytes.length, "x-linked-etag": `"${sha256(bytes)}"` }).end();
}

function contentOf(repos: Repos, [org, name, ...rest]: readonly string[]): Uint8Array {
  return repos[`${org}/${name}`]?.files[rest.join("/")] ?? new Uint8Array(0);
}

function sendContent(
  content: Uint8Array,
  request: IncomingMessage,
  response: ServerResponse,
  fault: HubFault | undefined,
): void {
  if (fault?.kind === "status") return void response.writeHead(fault.status).end();
  const requested =
    fault?.kind === "ignore-range" ? undefined : /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  const first = Number(requested?.[1] ?? 0);
  if (first >= content.length)
    return void response.writeHead(416, { "content-range": `bytes */${content.length}` }).end();
  const last = Math.min(Number(requested?.[2] || content.length - 1), content.length - 1);
  let body = Buffer.from(content.subarray(first, last + 1));
  if (fault?.kind === "corrupt") body[body.length - 1]! ^= 1;
  if (fault?.kind === "too-long") body = Buffer.concat([body, Buffer.from("more")]);
  const headers: Record<string, string | number> = { etag: `"${sha256(content)}"`, "accept-ranges": "bytes" };
  if (requested) headers["content-range"] = `bytes ${first}-${last}/${content.length}`;
  headers["content-length"] = body.length;
  response.writeHead(requested ? 206 : 200, headers);
  if (request.method === "HEAD") return void response.end();
  if (fault?.kind === "stall") return void response.write(body.subarray(0, fault.afterBytes));
  if (fault?.kind !== "cut") return void response.end(body);
  if (fault.afterBytes === 0) return void response.destroy();
  response.write(body.subarray(0, fault.afterBytes), () => response.destroy());
}

function sendJson(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response
    .writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers })
    .end(JSON.stringify(body));
}

function isLarge(path: string): boolean {
  return path.endsWith(".gguf");
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function sha1(bytes: Uint8Array): string {
  return createHash("sha1").update(bytes).digest("hex");
}
