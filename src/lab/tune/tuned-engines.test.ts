import { describe, expect, test } from "vitest";
import { fleetYaml } from "./report.js";
import { serveWords } from "./server-bench.js";
import { TUNED_ENGINES, tunedServer } from "./tuned-engines.js";

describe("vLLM's flags", () => {
  const drafts = (config: object) => ({ "speculative-config": JSON.stringify(config) });

  test.each([
    ["seats", { "max-num-seqs": "16" }, { "max-num-seqs": "16" }],
    ["a default", { "no-enable-prefix-caching": undefined }, { "no-enable-prefix-caching": undefined }],
    ["no drafts, which is the default", drafts({ method: "none" }), { "speculative-config": undefined }],
    [
      "drafts of n-grams, whose length it needs",
      drafts({ method: "ngram", num_speculative_tokens: 4 }),
      drafts({ method: "ngram", num_speculative_tokens: 4, prompt_lookup_max: 4 }),
    ],
  ])("say %s", (_, edit, expected) => expect(TUNED_ENGINES.vllm.editFor(edit)).toEqual(expected));

  test.each([
    ["drafts of suffixes", drafts({ method: "suffix", num_speculative_tokens: 8 })],
    ["time limits of steps", { "max-step-ms": "auto" }],
    ["half a change", { "max-num-seqs": "16", "activation-dtype": "int8" }],
  ])("cannot say %s", (_, edit) => expect(TUNED_ENGINES.vllm.editFor(edit)).toBeUndefined());
});

const choice = { engine: "vllm", program: "/opt/vllm" } as const;

test("the server of another engine is started with the configuration's flags, and so is the winner", () => {
  const server = tunedServer(choice, { name: "present", path: "/models/a", numThreads: 2 }, ["--max-num-seqs", "4"]);
  expect(server.command(9, undefined).slice(0, 3)).toEqual(["/opt/vllm", "serve", "/models/a"]);
  expect(server.command(9, undefined).slice(-2)).toEqual(["--max-num-seqs", "4"]);
  expect(server.env).toMatchObject({ OMP_NUM_THREADS: "2" });
  const best = { "max-num-seqs": "4" };
  expect(serveWords(choice, best, "/models/a")).toEqual(["/opt/vllm", "serve", "/models/a", "--max-num-seqs", "4"]);
  expect(fleetYaml({ name: "a", path: "/models/a" }, choice, best)).toBe(
    'models:\n  - name: a\n    model: /models/a\n    engine: vllm\n    program:\n      - /opt/vllm\n      - serve\n    args:\n      - --max-num-seqs\n      - "4"\n',
  );
});
