/**
 * Runs generated Python in a process of its own with a time limit. Code is first held to a part of the language that reaches neither files
 * nor the interpreter: no imports, no names or attributes with a leading underscore, a short list of built-in functions.
 */
import { execFile, spawnSync } from "node:child_process";
import type { CallResult, RunResult } from "./score.js";

const TIMEOUT_MS = 5000;
const MAX_OUTPUT_BYTES = 1 << 20;
const HARNESS = `
import ast, json, sys

job = json.load(sys.stdin)
BUILTINS = {name: getattr(__builtins__, name) for name in (
    "abs all any bool dict divmod enumerate filter float int isinstance len list map max min pow range reversed "
    "round set slice sorted str sum tuple zip ValueError TypeError KeyError IndexError ZeroDivisionError Exception "
    "True False None").split() if hasattr(__builtins__, name)}

def check(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.AsyncFunctionDef, ast.ClassDef)):
            raise ValueError("not run: " + type(node).__name__)
        for part in ("id", "attr", "name", "arg"):
            name = getattr(node, part, None)
            if isinstance(name, str) and (name.startswith("_") or name in ("format", "format_map")):
                raise ValueError("not run: the name " + name)

def main():
    try:
        tree = ast.parse(job["code"])
        check(tree)
        scope = {"__builtins__": BUILTINS}
        exec(compile(tree, "answer", "exec"), scope)
        function = scope[job["name"]]
    except BaseException as error:
        return {"problem": type(error).__name__ + ": " + str(error)}
    results = []
    for args in job["calls"]:
        try:
            results.append({"value": json.loads(json.dumps(function(*args)))})
        except BaseException as error:
            results.append({"problem": type(error).__name__ + ": " + str(error)})
    return results

print(json.dumps(main()))
`;

let isThere: boolean | undefined;

/** Looked for once. */
export function hasPython(): boolean {
  isThere ??= spawnSync("python3", ["-I", "-c", "pass"], { timeout: TIMEOUT_MS }).status === 0;
  return isThere;
}

/** @param calls each the arguments of one call */
export function runPython(code: string, name: string, calls: readonly (readonly unknown[])[]): Promise<RunResult> {
  return new Promise((resolve) => {
    const options = { timeout: TIMEOUT_MS, killSignal: "SIGKILL", maxBuffer: MAX_OUTPUT_BYTES, env: {} } as const;
    const child = execFile("python3", ["-I", "-c", HARNESS], options, (error, stdout) => {
      if (error !== null) resolve({ problem: child.killed ? `no answer within ${TIMEOUT_MS} ms` : "python3 failed" });
      else resolve(readResult(stdout));
    });
    child.stdin?.on("error", () => {}).end(JSON.stringify({ code, name, calls }));
  });
}

/** The code cannot print, but it can end the interpreter. */
function readResult(stdout: string): RunResult {
  try {
    return JSON.parse(stdout) as readonly CallResult[] | { readonly problem: string };
  } catch {
    return { problem: "python3 ended without a result" };
  }
}
