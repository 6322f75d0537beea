/**
 * The thread that parses reports, one file's bytes per message: a large file takes seconds, while the gateway's
 * requests
 * continue.
 */
import { parentPort } from "node:worker_threads";
import { MAX_JSON_DEPTH, shapeOf } from "../../core/json-body.js";
import { factsOf, type ReportFacts } from "./figures.js";

export type ReadReport = ReportFacts | { readonly error: string };

/**
 * Commas, colons and opening brackets outside strings: this many take the thread about two seconds. Our largest
 * benchmark
 * report has 140,000.
 */
const MOST_MARKS = 1_000_000;

function read(bytes: Uint8Array): ReadReport {
  const { isTooDeep, numMarks } = shapeOf(bytes, MOST_MARKS);
  if (isTooDeep) return { error: `expected a report nested at most ${MAX_JSON_DEPTH} deep, got more` };
  if (numMarks > MOST_MARKS) {
    return { error: `expected at most ${MOST_MARKS} commas, colons and opening brackets, got more` };
  }
  try {
    return factsOf(JSON.parse(Buffer.from(bytes).toString("utf8"))) ?? { error: NOT_OURS };
  } catch {
    return { error: "expected JSON, got other text" };
  }
}

const NOT_OURS = "expected a report that millrace wrote, got other JSON";

parentPort?.on("message", (bytes: Uint8Array) => parentPort!.postMessage(read(bytes)));
