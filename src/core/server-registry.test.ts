import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { registerServer, runningServers } from "./server-registry.js";

const FACTS = { url: "http://127.0.0.1:1", models: ["m"], kind: "engine", version: "1" } as const;

const filesIn = (cache: string): readonly string[] => readdirSync(join(cache, "servers"));

/** Writes this process's file with changes. */
function forge(cache: string, name: string, changes: object): void {
  const own = filesIn(cache).find((each) => each.endsWith(`-${process.pid}.json`));
  const record = JSON.parse(readFileSync(join(cache, "servers", own!), "utf8")) as object;
  writeFileSync(join(cache, "servers", name), JSON.stringify({ ...record, ...changes }));
}

test("a server is listed until it takes itself out", () => {
  const cache = tempTree({});
  expect(runningServers(cache)).toEqual([]);
  const remove = registerServer(FACTS, cache);
  expect(runningServers(cache)).toEqual([expect.objectContaining({ ...FACTS, pid: process.pid })]);
  remove();
  expect(filesIn(cache)).toEqual([]);
});

test("who was killed, and whoever has its number now, is cleared away; another machine's, and rubbish, is left", async () => {
  const cache = tempTree({});
  const remove = registerServer(FACTS, cache);
  const child = spawn(process.execPath, ["-e", ""]);
  const pid = child.pid!;
  await once(child, "exit");
  forge(cache, "dead.json", { pid });
  forge(cache, "reused.json", { processStart: "1" });
  forge(cache, "elsewhere.json", { host: "another-machine", pid });
  writeFileSync(join(cache, "servers", "broken.json"), "{");
  expect(runningServers(cache).map((record) => record.pid)).toEqual([process.pid]);
  expect(filesIn(cache).filter((name) => ["dead.json", "reused.json"].includes(name))).toEqual([]);
  expect(filesIn(cache)).toEqual(expect.arrayContaining(["broken.json", "elsewhere.json"]));
  forge(cache, "dead.json", { pid });
  registerServer(FACTS, cache)();
  expect(filesIn(cache)).not.toContain("dead.json");
  remove();
});

test("a cache that cannot be written to does not keep a server from starting", () => {
  const cache = tempTree({ servers: "a file" });
  expect(() => registerServer(FACTS, cache)()).not.toThrow();
  expect(runningServers(cache)).toEqual([]);
});
