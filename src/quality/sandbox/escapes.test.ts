/**
 * Attempts to escape, with targets on this host: a file with a secret, a folder open to all, a listener on loopback, an
 * environment variable. For Python the jail is the only barrier. For TypeScript some tests remove the `vm` context and
 * the permission model too: code that has broken both must still be confined.
 */
import { type StdioOptions, spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isLongRun, someOf } from "../../../test/helpers/long.js";
import { packageRoot } from "../../core/package-root.js";
import type { ConfinedProgram } from "./jail.js";
import { pythonProgram } from "./python.js";
import { hasPython, runCode, whyUnconfined } from "./run-code.js";
import { type Outcome, runProgram } from "./run-confined.js";
import { type Attack, JAILED_NODE, PYTHON, TYPESCRIPT } from "./test-helpers.js";
import { typescriptProgram } from "./typescript.js";

const TIMEOUT_MS = 300_000;
const SECRET = `secret-${process.pid}-${Math.random()}`;
const ESCAPED = "ESCAPED";

/** Targets of the attacks. */
interface Target {
  readonly file: string;
  readonly folder: string;
  readonly port: number;
  readonly pid: number;
  /** Folder of TypeScript's compiler, which the jail shows, without the leading slash. */
  readonly compiler: string;
}

let target: Target;
let listener: Server;
let numConnections = 0;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-escapes-"));
  chmodSync(folder, 0o777);
  const file = join(folder, "secret");
  writeFileSync(file, SECRET, { mode: 0o666 });
  chmodSync(file, 0o666);
  process.env.MILLRACE_TEST_SECRET = SECRET;
  listener = createServer((socket) => {
    numConnections += 1;
    socket.end(SECRET);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("expected a port");
  const compiler = dirname(realpathSync(createRequire(import.meta.url).resolve("@swc/wasm-typescript"))).slice(1);
  target = { file, folder, port: address.port, pid: process.pid, compiler };
});

afterAll(() => {
  listener.close();
  rmSync(target.folder, { recursive: true });
});

function expectUntouched(): void {
  expect(readdirSync(target.folder)).toEqual(["secret"]);
  expect(readFileSync(target.file, "utf8")).toBe(SECRET);
  expect(numConnections).toBe(0);
}

/** Whether only a limit of time, memory or output ends the attack, after seconds of computing. */
const isEndless = ([what]: Attack): boolean => /without end|fills|loops|sleeps|huge|buffers|memory/.test(what);

/** In npm test: one of the attacks that only a limit ends, and half of the others. */
function tried(attacks: readonly Attack[]): readonly Attack[] {
  if (isLongRun) return attacks;
  const others = attacks.filter((attack) => !isEndless(attack));
  return [...someOf(attacks.filter(isEndless), 1), ...someOf(others, Math.ceil(others.length / 2))];
}

const argumentsOf = (): string => JSON.stringify([target]);

/** Node without context and permission model: the code runs as the main script with all of Node's modules. */
function nakedNode(code: string): ConfinedProgram {
  const program = typescriptProgram();
  const script = `const attack = async (target) => {${code}\n};
    attack(...${argumentsOf()}).then((got) => console.log(String(got)), (error) => console.log("refused: " + error.message));`;
  return { ...program, args: ["--no-warnings", "--v8-pool-size=0", "--eval", script] };
}

const textOf = (outcome: Outcome): string => ("output" in outcome ? outcome.output : JSON.stringify(outcome));

describe.skipIf((await whyUnconfined("typescript")) !== undefined)("behind the walls", () => {
  describe.concurrent("TypeScript", () => {
    it.each(tried(TYPESCRIPT))(
      "%s",
      async (_what, code) => {
        const results = await runCode("typescript", { code, name: "attack", calls: [[target], [target]] });
        expect(JSON.stringify(results)).not.toMatch(new RegExp(`${ESCAPED}|${SECRET}`));
      },
      TIMEOUT_MS,
    );
  });

  describe.concurrent("Node, its context and permission model broken", () => {
    it.each(tried(JAILED_NODE))(
      "%s",
      async (_what, code) => {
        const text = textOf(await runProgram(nakedNode(code), "", true));
        expect(text).not.toMatch(new RegExp(`${ESCAPED}|${SECRET}`));
        expect(text).not.toContain("wallsMissing");
      },
      TIMEOUT_MS,
    );
  });

  describe.skipIf(!hasPython()).concurrent("Python", () => {
    it.each(tried(PYTHON))(
      "%s",
      async (_what, code) => {
        const results = await runCode("python", { code, name: "attack", calls: [[target], [target]] });
        expect(JSON.stringify(results)).not.toMatch(new RegExp(`${ESCAPED}|${SECRET}`));
      },
      TIMEOUT_MS,
    );
  });

  it(
    "close inherited files",
    () => {
      const module = (name: string): string => JSON.stringify(join(packageRoot(), "dist/src/quality/sandbox", name));
      const script = `import { runProgram } from ${module("run-confined.js")};
      const program = ${JSON.stringify(nakedNode('return "seen: " + require("fs").fstatSync(200).isDirectory();'))};
      console.log(JSON.stringify(await runProgram(program, "", true)));`;
      const folder = openSync(target.folder, "r");
      const stdio = Array.from({ length: 201 }, (_, index) => (index < 3 ? "pipe" : index === 200 ? folder : "ignore"));
      const args = ["--input-type=module", "--eval", script];
      const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", stdio: stdio as StdioOptions });
      closeSync(folder);
      expect(stdout + stderr).toContain("seen: false");
    },
    TIMEOUT_MS,
  );

  it("leave the host untouched", expectUntouched);

  it("stop the attacks, which succeed without the jail", async () => {
    const read = nakedNode('return require("fs").readFileSync(target.file, "utf8");');
    expect(textOf(await runProgram(read, "", false))).toContain(SECRET);
    const connect = JAILED_NODE.find(([what]) => what.startsWith("connects to"))?.[1] ?? "";
    expect(textOf(await runProgram(nakedNode(connect), "", false))).toContain(ESCAPED);
    expect(numConnections).toBe(1);
    const python = pythonProgram();
    if (python === undefined) return;
    const code = PYTHON.find(([name]) => name === "reads a file")?.[1] ?? "";
    const job = JSON.stringify({ code, name: "attack", calls: [[target]] });
    expect(textOf(await runProgram(python, job, false))).toContain(SECRET);
    numConnections = 0;
  }, 60_000);
});
