/**
 * Bundles the browser app (src/web) into dist/web: scripts and styles whose names change with their content, each also
 * in compressed form, and the page that loads them. src/core/web-app.ts serves these files.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M1 6q3.5-4 7 0t7 0M1 11q3.5-4 7 0t7 0' fill='none' stroke='%233b82c4' stroke-width='2'/%3E%3C/svg%3E";

const page = (script, style) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>millrace</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="app/${style}">
<script type="module" src="app/${script}"></script>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The API is under v1.</noscript>
</body>
</html>
`;

function writeCompressed(path, bytes) {
  writeFileSync(path, bytes);
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}

export async function buildWeb(root) {
  const { build } = await import("esbuild");
  const folder = join(root, "dist/web");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["src/web/main.tsx"],
    outdir: "dist/web",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    minify: true,
    legalComments: "none",
    metafile: true,
    logLevel: "silent",
  });
  const outputs = Object.keys(metafile.outputs);
  for (const path of outputs) writeCompressed(join(root, path), readFileSync(join(root, path)));
  const nameOf = (end) => basename(outputs.find((path) => basename(path).startsWith("main-") && path.endsWith(end)));
  writeCompressed(join(folder, "index.html"), Buffer.from(page(nameOf(".js"), nameOf(".css"))));
}
