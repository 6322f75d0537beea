import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { webAnswer } from "./web-app.js";

const bytesOf = async (path: string, encoding?: string): Promise<Buffer> =>
  Buffer.from(await webAnswer(path, encoding)!.arrayBuffer());

test("the page loads at most 130 kB before it is used, from its own origin alone", async () => {
  const page = (await bytesOf("/")).toString();
  const paths = [...page.matchAll(/(?:src|href)="(app\/[^"]+)"/g)].map(([, path]) => `/${path}`);
  expect(paths.map((path) => path.replace(/.*\./, "")).sort()).toEqual(["css", "js"]);
  const sizes = await Promise.all(["/", ...paths].map(async (path) => (await bytesOf(path, "gzip")).length));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(130_000);
  expect(page).not.toMatch(/(src|href)="(https?:)?\/\//);
  expect(webAnswer("/", undefined)!.headers.get("Content-Security-Policy")).toContain("script-src 'self'");
});

test("files come in the encoding that is asked for, and are kept by their names", async () => {
  const [, path] = /src="(app\/[^"]+)"/.exec((await bytesOf("/")).toString())!;
  const plain = await bytesOf(`/${path}`);
  expect(gunzipSync(await bytesOf(`/${path}`, "gzip, deflate"))).toEqual(plain);
  expect(brotliDecompressSync(await bytesOf(`/${path}`, "gzip, br;q=1"))).toEqual(plain);
  const { headers } = webAnswer(`/${path}`, "br")!;
  expect(headers.get("Content-Encoding")).toBe("br");
  expect(headers.get("Cache-Control")).toContain("immutable");
  expect(webAnswer("/", "br")!.headers.get("Cache-Control")).toBe("no-cache");
});

test.each([
  "/app/",
  "/app/none.js",
  "/app/../../package.json",
  "/app/index.html.gz",
  "/app/__proto__",
])("%s is no file of the app", (path) => {
  expect(webAnswer(path, undefined)).toBeUndefined();
});
