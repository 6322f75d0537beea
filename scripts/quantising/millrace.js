/** Runs the product's own commands. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("../../bin/millrace.js", import.meta.url));

/**
 * @param args arguments of `millrace`
 * @param onProcess called with the child process when it has started
 * @returns its output, parsed as JSON if `--json` is among the arguments
 */
export function millrace(args, { signal, onProcess } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "pipe"], signal });
    const [stdout, stderr] = [[], []];
    child.stdout.on("data", (bytes) => stdout.push(bytes));
    child.stderr.on("data", (bytes) => stderr.push(bytes));
    child.on("error", reject);
    child.on("close", (code) => {
      const text = Buffer.concat(stdout).toString();
      if (code === 0) resolve(args.includes("--json") ? JSON.parse(text) : text);
      else reject(new Error(`millrace ${args.join(" ")} ended with ${code}: ${Buffer.concat(stderr)}`));
    });
    onProcess?.(child);
  });
}
