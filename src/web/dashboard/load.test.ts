import { expect, test } from "vitest";
import { bindingOf, type Load } from "./load.js";

const load: Load = {
  atMs: 1000,
  tokensInPerS: 0,
  tokensOutPerS: 100,
  running: 2,
  waiting: 3,
  kvUse: 0.99,
  ttft: {},
  tpot: {},
  queue: {},
};

test("what binds is told by the metrics", () => {
  expect(bindingOf(load)).toMatchObject({ name: "memory", evidence: "kv_cache_usage_perc is 99 %, and 3 wait" });
  expect(bindingOf({ ...load, kvUse: 0.2 }).name).toBe("seats");
  expect(bindingOf({ ...load, waiting: 0 }).name).toBe("decode");
  expect(bindingOf({ ...load, waiting: 0, tokensInPerS: 5000 }).name).toBe("prefill");
  expect(bindingOf({ ...load, waiting: 0, running: 0, tokensOutPerS: 0 }).name).toBe("nothing");
});
