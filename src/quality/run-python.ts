/**
 * Runs generated Python in a process of its own with limits of time and memory. Code is first held to a part of the language that reaches
 * neither files nor the interpreter: no imports, no names with a leading underscore, the methods of plain values (a generator's frame leads to
 * the harness and from there anywhere), a short list of built-in functions.
 */
import { execFile, spawnSync } from "node:child_process";
import type { CallResult, RunResult } from "./score.js";

const TIMEOUT_MS = 5000;
const MAX_OUTPUT_BYTES = 1 << 20;
const MAX_MEMORY_BYTES = 1 << 29;
const HARNESS = `
import ast, json, sys

try:
    import resource
    for limit, most in (("RLIMIT_AS", ${MAX_MEMORY_BYTES}), ("RLIMIT_NPROC", 0), ("RLIMIT_FSIZE", 0)):
        resource.setrlimit(getattr(resource, limit), (most, most))
except (ImportError, AttributeError, OSError, ValueError):
    pass  # a system without them

job = json.load(sys.stdin)
BUILTINS = {name: getattr(__builtins__, name) for name in (
    "abs all any bool dict divmod enumerate filter float int isinstance len list map max min pow range reversed "
    "round set slice sorted str sum tuple zip ValueError TypeError KeyError IndexError ZeroDivisionError Exception "
    "True False None").split() if hasattr(__builtins__, name)}

METHODS = {name for kind in (str, list, dict, set, tuple, int, float) for name in dir(kind)} - {"format", "format_map"}
REFUSED = ("Import", "ImportFrom", "Global", "Nonlocal", "AsyncFunctionDef", "ClassDef", "MatchClass")

def check(tree):
    for node in ast.walk(tree):
        if type(node).__name__ in REFUSED:
            raise ValueError("not run: " + type(node).__name__)
        if isinstance(node, ast.Attribute) and node.attr not in METHODS:
            raise ValueError("not run: the attribute " + node.attr)
        for part in ("id", "attr", "name", "arg", "rest"):
            name = getattr(node, part, None)
            if isinstance(name, str) and name.startswith("_"):
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
            results.append({"value": json.loads(json.dumps(function(*args), allow_nan=False))})
        except BaseException as error:
            results.append({"problem": type(error).__name__ + ": " + str(error)})
    return results

print(json.dumps(main()))
`;

/** Where python3 is looked for: everywhere, or hasPython() and runPython() would find different ones. */
const environment = (): NodeJS.ProcessEnv => ({ PATH: process.env.PATH });

let isThere: boolean | undefined;

/** Looked for once. */
export function hasPython(): boolean {
  isThere ??= spawnSync("python3", ["-I", "-c", "pass"], { timeout: TIMEOUT_MS, env: environment() }).status === 0;
  return isThere;
}

/** @param calls each the arguments of one call */
export function runPython(code: string, name: string, calls: readonly (readonly unknown[])[]): Promise<RunResult> {
  return new Promise((resolve) => {
    const options = {
      timeout: TIMEOUT_MS,
      killSignal: "SIGKILL",
      maxBuffer: MAX_OUTPUT_BYTES,
      env: environment(),
    } as const;
    const child = execFile("python3", ["-I", "-c", HARNESS], options, (error, stdout) => {
      if (error === null) resolve(readResult(stdout));
      else if (error.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER")
        resolve({ problem: "more than a megabyte of results" });
      else resolve({ problem: child.killed ? `no answer within ${TIMEOUT_MS} ms` : "python3 failed" });
    });
    child.stdin?.on("error", () => {}).end(JSON.stringify({ code, name, calls }));
  });
}

/** The code cannot print, but it can end the interpreter. */
function readResult(stdout: string): RunResult {
  try {
    // Python writes its negative zero, which is one there.
    return JSON.parse(stdout, (_, value) => (value === 0 ? 0 : value)) as
      | readonly CallResult[]
      | { readonly problem: string };
  } catch {
    return { problem: "python3 ended without a result" };
  }
}
