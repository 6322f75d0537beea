/**
 * `npm run test:neon`: cross-builds the native tests for 64-bit Arm and runs them under QEMU, on a CPU with dot
 * products and on one without. Needs aarch64-linux-gnu-g++ and qemu-aarch64-static (Debian: g++-aarch64-linux-gnu,
 * qemu-user-static), and says so when they are missing.
 */
import { spawnSync } from "node:child_process";
import { buildNativeTestsForArm } from "./build-native.js";

const TOOLS = ["aarch64-linux-gnu-g++", "qemu-aarch64-static"];
const CPUS = ["max", "cortex-a53"];

const missing = TOOLS.filter((tool) => spawnSync(tool, ["--version"]).status !== 0);
if (missing.length > 0) {
  console.error(`expected ${TOOLS.join(" and ")} on the PATH, got no ${missing.join(" and no ")}`);
  console.error("  Debian, Ubuntu:  sudo apt install g++-aarch64-linux-gnu qemu-user-static");
  process.exit(1);
}
const binary = await buildNativeTestsForArm({ log: (line) => console.log(line) });
for (const cpu of CPUS) {
  console.log(`-cpu ${cpu}`);
  const { status } = spawnSync("qemu-aarch64-static", ["-cpu", cpu, binary], { stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
}
