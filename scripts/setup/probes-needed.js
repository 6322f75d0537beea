/** Whether a command measures this machine's CPU, for which the launcher must build the probes. */
import { existsSync } from "node:fs";

/** @returns the value after `name`, as the next word or after an equals sign; undefined: the flag is absent */
function flagValue(args, name) {
  const index = args.findIndex((arg) => arg === name || arg.startsWith(`${name}=`));
  if (index < 0) return undefined;
  return args[index].startsWith(`${name}=`) ? args[index].slice(name.length + 1) : (args[index + 1] ?? "");
}

const hasNvidiaGpu = () => existsSync("/proc/driver/nvidia/version");

/**
 * `plan` measures if it plans for this CPU without given speeds.
 *
 * @param args arguments after the program's name
 */
export function needsProbes(args, hasGpu = hasNvidiaGpu) {
  if (args[0] !== "plan" || args.some((arg) => arg === "--help" || arg === "-h")) return false;
  if (flagValue(args, "--model") === undefined) return false;
  const hardware = flagValue(args, "--hardware") ?? "detect";
  const isThisCpu = hardware === "cpu" || (hardware === "detect" && !hasGpu());
  const isTold = ["--memory-bandwidth", "--multiply-speed"].every((name) => flagValue(args, name) !== undefined);
  return isThisCpu && !isTold;
}
