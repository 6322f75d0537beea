/**
 * The thread generated JavaScript runs in. Only texts cross the context's border, so that no object of ours can be reached from inside:
 * arguments go in as literals, results come out as JSON. Each job has a context of its own.
 */
import vm from "node:vm";
import { parentPort } from "node:worker_threads";
import type { CallResult } from "./score.js";

export interface SandboxJob {
  readonly code: string;
  readonly name: string;
  readonly calls: readonly (readonly unknown[])[];
}

const CALL_TIMEOUT_MS = 250;

function run({ code, name, calls }: SandboxJob): readonly CallResult[] | { readonly problem: string } {
  const context = vm.createContext(Object.create(null), {
    codeGeneration: { strings: false, wasm: false },
    microtaskMode: "afterEvaluate",
  });
  const evaluate = (source: string): unknown => vm.runInContext(source, context, { timeout: CALL_TIMEOUT_MS });
  try {
    evaluate(code);
  } catch (thrown) {
    return { problem: messageOf(thrown) };
  }
  return calls.map((args): CallResult => {
    try {
      const text = evaluate(`JSON.stringify([${name}(...${JSON.stringify(args)})])`);
      if (typeof text !== "string") return { problem: "the result is no plain value" };
      const [value] = JSON.parse(text) as unknown[];
      return { value };
    } catch (thrown) {
      return { problem: messageOf(thrown) };
    }
  });
}

/** Whatever was thrown comes from inside; its parts may be getters that never end, so only true errors are looked at. */
function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  try {
    const descriptor = Object.getOwnPropertyDescriptor(thrown as object, "message");
    return typeof descriptor?.value === "string" ? descriptor.value : "the code threw something";
  } catch {
    return "the code threw something";
  }
}

parentPort?.on("message", (job: SandboxJob) => parentPort?.postMessage(run(job)));
