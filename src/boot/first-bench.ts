/**
 * The benchmark after a machine's first start, in a separate process, against the running fleet. Writes the page at
 * /report.
 */
import { spawn } from "node:child_process";
import { renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { availableMemory } from "../core/available-memory.js";
import { endingWithUs } from "../core/child-end.js";
import { defaultNumThreads } from "../core/cpu.js";
import { packageRoot } from "../core/package-root.js";

interface FirstBench {
  readonly url: string;
  /**
   * The model's file, if our own engine serves it: the fleet is then compared with vanilla, the same engine without
   * optimisations.
   */
  readonly modelPath: string | undefined;
  readonly model: string;
  readonly apiKey: string | undefined;
  /** Target of the page, like `jsonFile` of the JSON; both are written at the end. */
  readonly htmlFile: string;
  readonly jsonFile: string;
}

/** Vanilla holds a repacked copy of the weights beside the mapped file. */
const VANILLA_MEMORY_SHARE = 1.5;

/** Whether a second engine with the same model fits beside the fleet. */
function fitsTwice(modelPath: string): boolean {
  const { size } = statSync(modelPath);
  return VANILLA_MEMORY_SHARE * size + 2 ** 30 < availableMemory();
}

/** Resolves with the bench's exit code, 1 for a signal. The reports are written with exit code 0. */
export async function runFirstBench(bench: FirstBench): Promise<number> {
  const { url, modelPath, model } = bench;
  if (modelPath !== undefined && statSync(modelPath).isFile() && fitsTwice(modelPath)) {
    // The fleet has all cores, so vanilla gets them too.
    const threads = String(defaultNumThreads());
    const short = [
      "--shape",
      "128/64",
      "--concurrency",
      "1,4,16",
      "--duration",
      "12",
      "--rounds",
      "3",
      "--threads",
      threads,
    ];
    const args = ["ablate", "--model", modelPath, "--running", url, "--running-model", model, ...short];
    const exitCode = await runBench(bench, args);
    // The fleet's own figures are useful without the comparison too.
    if (exitCode === 0) return exitCode;
  }
  return runBench(bench, ["run", "--url", url, "--model", model, "--name", "millrace", "--scenario", "quick"]);
}

function runBench({ url, apiKey, htmlFile, jsonFile }: FirstBench, words: readonly string[]): Promise<number> {
  // The name has the process id, since machines may share the folder.
  const unfinished = (file: string): string => `${file}.${process.pid}.part`;
  const files = ["--html", unfinished(htmlFile), "--out", unfinished(jsonFile)];
  const bench = spawn(process.execPath, [join(packageRoot(), "bin/millrace.js"), "bench", ...words, ...files], {
    stdio: ["ignore", "inherit", "inherit"],
    env: {
      ...process.env,
      // The environment, since other users can read command lines.
      ...(apiKey === undefined ? {} : { OPENAI_API_KEY: apiKey }),
      // The bench only calls this process, at an address that its certificate need not name.
      ...(url.startsWith("https:") ? { NODE_TLS_REJECT_UNAUTHORIZED: "0" } : {}),
    },
  });
  // SIGTERM instead of SIGKILL: the bench first ends the server that it started.
  const child = endingWithUs(bench, "SIGTERM");
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      try {
        if (code === 0) for (const file of [jsonFile, htmlFile]) renameSync(unfinished(file), file);
        resolve(code ?? 1);
      } catch (thrown) {
        reject(thrown);
      }
    });
  });
}
