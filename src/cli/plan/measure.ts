/**
 * A short measurement of the model on this machine's CPU, in a separate process, to which the speed model is then
 * fitted.
 */
import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endingWithUs } from "../../core/child-end.js";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";
import { type Fit, fittedEfficiencies } from "../../plan/calibrate.js";
import type { PlanRequest } from "../../plan/request.js";
import { onStopSignals } from "../process/stop-signal.js";

/** Takes half a minute for a model of a billion weights on two cores. */
const SHORT = ["--prompt-tokens", "128", "--gen-tokens", "16", "--batch", "1,4,8", "--repetitions", "1"];

/** Resolves with the exit code; 1 for a signal. */
function runBench(model: string, output: number): Promise<number> {
  const args = ["bench", "engine", "--model", model, ...SHORT, "--json"];
  const child = endingWithUs(
    spawn(process.execPath, [join(packageRoot(), "bin/millrace.js"), ...args], {
      stdio: ["ignore", output, "inherit"],
    }),
  );
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

/** @param isHere whether the plan's machine is this one */
export async function measuredFit({ model, machine }: PlanRequest, isHere: boolean): Promise<Fit> {
  if (machine.kind !== "cpu" || !isHere || model.stored === undefined || model.embeddedRefusal !== undefined) {
    const got = machine.kind === "cpu" && isHere ? model.name : machine.device.label;
    throw new MillraceError(
      "invalid_option",
      `expected --measure beside a model's file that the embedded engine loads and --hardware cpu, got ${got}`,
      { hint: "elsewhere start the server, measure it with millrace bench run --out, and plan with --calibrate" },
    );
  }
  const folder = mkdtempSync(join(tmpdir(), "millrace-measure-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const stopListening = onStopSignals((exitCode) => {
    remove();
    process.exit(exitCode);
  });
  try {
    const file = join(folder, "engine.json");
    const output = openSync(file, "w");
    const code = await runBench(model.location, output);
    closeSync(output);
    if (code !== 0) {
      throw new MillraceError(
        "peer_failed",
        `expected millrace bench engine to measure ${model.name}, got exit code ${code}`,
        {
          hint: `run it alone to see why: millrace bench engine --model ${model.location}`,
        },
      );
    }
    const fit = await fittedEfficiencies(file, machine);
    return { ...fit, source: `${model.name}, measured just now` };
  } finally {
    stopListening();
    remove();
  }
}
