/**
 * The browser app: its page at `/` and its files under `/app/`, from the build (scripts/build-web.js). A server of one
 * model and a gateway serve the same files; the page asks the API whether it talks to an engine or to a gateway.
 */
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { packageRoot } from "./package-root.js";

interface WebFile {
  readonly type: string;
  readonly plain: Buffer;
  /** By name of the content encoding. */
  readonly encoded: ReadonlyMap<string, Buffer>;
}

const FOLDER = "dist/web";
const PAGE = "index.html";
const PREFIX = "/app/";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=UTF-8",
  ".js": "text/javascript; charset=UTF-8",
  ".css": "text/css; charset=UTF-8",
};

/** In order of preference. */
const ENCODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const;

/** Scripts and styles come only from this origin, and text becomes HTML only through the sanitizer's policy. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types dompurify",
].join("; ");

const SAFETY_HEADERS = { "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer" };

let files: ReadonlyMap<string, WebFile> | undefined;

function readFiles(folder: string): ReadonlyMap<string, WebFile> {
  const names = readdirSync(folder).filter((name) => extname(name) in TYPES);
  return new Map(
    names.map((name) => {
      const path = join(folder, name);
      const encoded = new Map(ENCODINGS.map(([encoding, end]) => [encoding, readFileSync(path + end)]));
      return [name, { type: TYPES[extname(name)]!, plain: readFileSync(path), encoded }];
    }),
  );
}

/** Whether the app answers this path, for any file. */
export function isWebPath(path: string): boolean {
  return path === "/" || path.startsWith(PREFIX);
}

/**
 * @param path without a query
 * @param acceptEncoding the request's header
 * @returns undefined if the app has no such file
 */
export function webAnswer(path: string, acceptEncoding: string | undefined): Response | undefined {
  files ??= readFiles(join(packageRoot(), FOLDER));
  const isPage = path === "/";
  const file = files.get(isPage ? PAGE : path.slice(PREFIX.length));
  if (file === undefined) return undefined;
  const accepted = (acceptEncoding ?? "").split(",").map((each) => each.split(";", 1)[0]!.trim());
  const encoding = ENCODINGS.find(([name]) => accepted.includes(name))?.[0];
  const headers: Record<string, string> = {
    "Content-Type": file.type,
    // The other files' names change with their content.
    "Cache-Control": isPage ? "no-cache" : "public, max-age=31536000, immutable",
    Vary: "Accept-Encoding",
    ...SAFETY_HEADERS,
  };
  if (isPage) headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY;
  if (encoding !== undefined) headers["Content-Encoding"] = encoding;
  const body = encoding === undefined ? file.plain : file.encoded.get(encoding)!;
  return new Response(new Uint8Array(body), { headers });
}
