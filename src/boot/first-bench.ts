/** The quick bench after a machine's first start, in a process of its own against the running fleet. Writes the page that /report shows. */
import { spawn } from "node:child_process";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../core/package-root.js";

interface FirstBench {
  readonly url: string;
  readonly model: string;
  readonly apiKey: string | undefined;
  /** The page and the JSON are written here at the end. */
  readonly htmlFile: string;
  readonly jsonFile: string;
}

/** Resolves with the bench's exit code, 1 for a signal. The reports are written with exit code 0. */
export function runFirstBench({ url, model, apiKey, htmlFile, jsonFile }: FirstBench): Promise<number> {
  // Machines may share the folder.
  const unfinished = (file: string): string => `${file}.${process.pid}.part`;
  const files = ["--html", unfinished(htmlFile), "--json", unfinished(jsonFile)];
  const args = ["bench", "run", "--url", url, "--model", model, "--name", "millrace", "--scenario", "quick", ...files];
  const child = spawn(process.execPath, [join(packageRoot(), "bin/millrace.js"), ...args], {
    stdio: ["ignore", "inherit", "inherit"],
    // Other users can read command lines.
    env: { ...process.env, ...(apiKey === undefined ? {} : { OPENAI_API_KEY: apiKey }) },
  });
  const stop = (): void => void child.kill("SIGKILL");
  process.once("exit", stop);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      process.off("exit", stop);
      try {
        if (code === 0) for (const file of [jsonFile, htmlFile]) renameSync(unfinished(file), file);
        resolve(code ?? 1);
      } catch (thrown) {
        reject(thrown);
      }
    });
  });
}
