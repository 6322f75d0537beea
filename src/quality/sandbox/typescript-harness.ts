/**
 * Calls a generated TypeScript function in a separate process (`typescript.ts`), which gets this file's text, so
 * imports are from Node only. The context keeps ordinary answers apart and gives each call a time limit. Only the
 * process is a barrier to malicious code.
 */
import { readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";
import type { CallResult, RunResult, SandboxJob } from "./results.js";

const MAX_CALL_MS = 1000;
/** Time limit of all calls together. */
const MAX_JOB_MS = 8000;
const STDIN = 0;
const STDOUT = 1;

interface TypeScriptCompiler {
  transformSync(source: string, options: { mode: "transform" }): { readonly code: string };
}

function run({ code, name, calls }: SandboxJob, compilerPath: string): RunResult {
  const timeout = Math.ceil(Math.min(MAX_CALL_MS, MAX_JOB_MS / (calls.length + 1)));
  const context = vm.createContext(Object.create(null), {
    codeGeneration: { strings: false, wasm: false },
    microtaskMode: "afterEvaluate",
  });
  const evaluate = (source: string): unknown => vm.runInContext(source, context, { timeout });
  try {
    // Printed text is not part of the answer.
    evaluate("globalThis.console = new Proxy({}, { get: () => () => {} });");
    evaluate(withoutTypes(code, compilerPath));
  } catch (thrown) {
    return { problem: messageOf(thrown) };
  }
  return calls.map((args): CallResult => {
    try {
      const text = evaluate(`JSON.stringify([${name}(...${JSON.stringify(args)})], (_, value) => {
        if (value === undefined || typeof value === "function" || (typeof value === "number" && !isFinite(value)))
          throw new Error("the result is no plain value");
        return value;
      })`);
      if (typeof text !== "string") return { problem: "the result is no plain value" };
      const [value] = JSON.parse(text) as unknown[];
      return { value };
    } catch (thrown) {
      return { problem: messageOf(thrown) };
    }
  });
}

/** The code as a script: the function is called by name, so it need not be exported. */
function withoutTypes(code: string, compilerPath: string): string {
  const compiler = createRequire("/")(compilerPath) as TypeScriptCompiler;
  return compiler
    .transformSync(code, { mode: "transform" })
    .code.replace(/^export\s+(?:default\s+)?(?=(?:async|function|class|const|let|var)\b)/gm, "")
    .replace(/^export\s*\{[^}]*\};?/gm, "");
}

/** A thrown value can come from the code, with getters that never end; so only true errors are read. */
function messageOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  if (thrown instanceof Error) return thrown.message;
  try {
    const descriptor = Object.getOwnPropertyDescriptor(thrown as object, "message");
    return typeof descriptor?.value === "string" ? descriptor.value : "the code threw something";
  } catch {
    return "the code threw something";
  }
}

const [compilerPath = ""] = process.argv.slice(1);
const job = JSON.parse(readFileSync(STDIN, "utf8")) as SandboxJob;
writeAll(JSON.stringify(run(job, compilerPath)));

function writeAll(text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) rest = rest.subarray(writeSync(STDOUT, rest));
}
