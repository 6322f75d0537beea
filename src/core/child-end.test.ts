import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { endingWithUs } from "./child-end.js";

test.each([
  ["killed", undefined, "SIGKILL"],
  ["told to end, if it ends its own children", "SIGTERM", "SIGTERM"],
] as const)("when this process ends, a child is %s", async (_, signal, expected) => {
  const child = endingWithUs(spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]), signal);
  await once(child, "spawn");
  process.listeners("exit").at(-1)!(0);
  expect(await once(child, "exit")).toEqual([null, expected]);
});
