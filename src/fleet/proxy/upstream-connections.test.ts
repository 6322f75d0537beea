import { expect, test } from "vitest";
import { UpstreamConnections } from "./upstream-connections.js";

const A = "http://127.0.0.1:1";
const B = "http://127.0.0.1:2";

test("a pool is kept until its address has not been used for ten minutes", async () => {
  let nowMs = 0;
  const connections = new UpstreamConnections(1000, () => nowMs);
  const first = connections.poolOf(A);
  nowMs = 300_000;
  expect(connections.poolOf(A)).toBe(first);
  nowMs += 600_000 - 1;
  connections.poolOf(B);
  expect(first.closed).toBe(false);
  nowMs += 1;
  connections.poolOf("http://127.0.0.1:3");
  expect(first.closed).toBe(true);
  expect(connections.poolOf(A)).not.toBe(first);
  await connections.close();
});
