/**
 * The shell blocks of README, guides and HTTP API are run, page by page, in one shell in a folder with the bundled
 * models. A server goes on in the background until the next one starts or the page ends; the port 8000 of the pages is
 * a free one. Blocks that say why not are left out.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { blocksOf, examplePages, type ShellBlock } from "../docs/shell-blocks.js";
import { repositoryRoot } from "./fixtures.js";

const root = repositoryRoot();

/** The slowest page takes a quarter of a minute on an idle machine. */
const PAGE_MS = 170_000;

/** `millrace` and `npm start` of this checkout; a server is ready when its command returns. */
const PRELUDE = `
set -euo pipefail
server=
end_server() { [ -z "$server" ] || { kill "$server"; wait "$server" || true; server=; }; }
trap '[ $? = 0 ] || [ ! -f server.log ] || tail -n 20 server.log >&2; end_server' EXIT
launch() { command node "$ROOT/bin/millrace.js" "$@"; }
serve() {
  end_server
  local args=() each flags=" $* "
  for each; do
    # The file's own port gives way to the free one.
    [ ! -f "$each" ] || [[ "$flags" != *" --config $each "* ]] || sed -i -e "1i port: $PORT" -e '/^port:/d' "$each"
    args+=("$each")
  done
  [[ "$flags" == *" --config "* ]] || args+=(--port "$PORT")
  command node "$ROOT/bin/millrace.js" serve "\${args[@]}" > server.log 2>&1 &
  server=$!
  for each in $(seq 300); do
    command curl -sf -o health.json "http://127.0.0.1:$PORT/health" && return
    kill -0 "$server" || break
    sleep 0.1
  done
  cat server.log >&2; server=; return 1
}
millrace() {
  case "\${1-}" in
    serve) shift; serve "$@" ;;
    "" | -[!hV]*) serve "$@" ;;
    *) launch "$@" ;;
  esac
}
npm() {
  while [[ "$1" == -* ]]; do shift; done
  [ "$1" = start ] || { echo "npm $1 is not run in tests: give the block a reason" >&2; return 1; }
  shift
  [ "\${1-}" != -- ] || shift
  millrace "$@"
}
curl() { command curl -sS --fail-with-body --max-time 30 "$@"; }
`;

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

interface PageRun {
  readonly exitCode: number | null;
  readonly output: string;
}

function runPage(blocks: readonly ShellBlock[], folder: string, port: number): Promise<PageRun> {
  const parts = blocks.map(({ page, line, text }) => `echo "== ${page}:${line}" >&2\n${text}`);
  const script = `${PRELUDE}\n${parts.join("\n")}\n`.replaceAll(/\b8000\b/g, String(port));
  const env = {
    ...process.env,
    ROOT: root,
    PORT: String(port),
    MILLRACE_CACHE: join(folder, "cache"),
    XDG_STATE_HOME: folder,
  };
  const child = spawn("bash", ["-c", script], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: PAGE_MS,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  return new Promise((resolve) => child.once("close", (exitCode) => resolve({ exitCode, output })));
}

/** Pages with blocks that are run. */
export const exampleRuns = examplePages()
  .map((page) => [page, blocksOf(page).filter(({ reason }) => reason === undefined)] as const)
  .filter(([, blocks]) => blocks.length > 0);

/**
 * Defines a test for each page of the part that is this file's: the files of its folder share all pages, so that they
 * run side by side.
 *
 * @param url of the file
 */
export function testExamples(url: string): void {
  const parts = readdirSync(new URL(".", url)).sort();
  const part = parts.indexOf(basename(fileURLToPath(url)));
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "millrace-examples-"));
    for (const name of ["models", "presets", "src"]) symlinkSync(join(root, name), join(folder, name));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const hasCurl = spawnSync("curl", ["--version"]).status === 0;
  const own = exampleRuns.filter((_, i) => i % parts.length === part);
  test.skipIf(!hasCurl).each(own)(
    "%s (needs bash and curl)",
    async (_, blocks) => {
      const { exitCode, output } = await runPage(blocks, folder, await freePort());
      expect(exitCode, output.slice(-4000)).toBe(0);
    },
    PAGE_MS + 10_000,
  );
}
