/**
 * The gateway's view of a real vLLM's prefix cache (MILLRACE_VLLM names its program; scripts/engines/vllm.sh sets up
 * its CPU build).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { convertModel } from "../../src/convert/convert.js";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import { CacheWatch } from "../../src/fleet/routing/cache-watch.js";
import { blockKey, rootKey } from "../../src/text/block-hash.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { modelSpec, testFleet } from "../helpers/fleet.js";
import { until } from "../helpers/fleet-process.js";
import { TestRng } from "../helpers/rng.js";

const vllm = process.env.MILLRACE_VLLM;
const START_MS = 240_000;
/** Of vLLM's CPU build. */
const BLOCK = 128;
/** 16 blocks: fewer than the prompts have together. */
const KV_BYTES = 16 * BLOCK * 6144;
const NUM_REQUESTS = 60;
const SALTS = ["", "tenant-a", "tenant-b"];

const folder = mkdtempSync(join(tmpdir(), "millrace-vllm-cache-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.skipIf(vllm === undefined)("a real vLLM (needs MILLRACE_VLLM)", () => {
  it(
    "has exactly the blocks that its events report, with a cache too small for the prompts, salts, and after kill -9",
    async () => {
      const model = join(folder, "mill-base");
      await convertModel({ model: join(repositoryRoot(), "models/mill-base.gguf"), out: model, type: "BF16" });
      await using fleet = testFleet();
      fleet.supervisor.addModel(
        modelSpec({
          engine: "vllm",
          program: [vllm!, "serve"],
          args: ["--enforce-eager"],
          options: { model, maxModelLen: 1024, maxNumSeqs: 2, kvCacheMemoryBytes: KV_BYTES },
          startTimeoutMs: START_MS,
        }),
      );
      const watch = new CacheWatch(fleet.supervisor, ({ engine }) => ADAPTERS[engine].followCache);
      const rng = new TestRng(1);
      const next = () => Array.from({ length: BLOCK }, () => rng.int(3, 4000));
      const pieces = Array.from({ length: 8 }, next);

      const run = async (numRequests: number) => {
        const { id, target } = await fleet.supervisor.whenReady("m");
        const current = () => watch.blocksOf(fleet.supervisor.upstreams("m").find((each) => each.id === id)!);
        const hits = async () => {
          const text = await (await fetch(`${target!.url}/metrics`)).text();
          return Number(/^vllm:prefix_cache_hits_total\S* (\S+)$/m.exec(text)?.[1]);
        };
        const predicted: number[] = [];
        const found: number[] = [];
        for (let i = 0; i < numRequests; i++) {
          const prompt = [...Array.from({ length: rng.int(1, 6) }, () => pieces[rng.int(0, 7)]!).flat(), 5, 6, 7];
          const salt = SALTS[rng.int(0, SALTS.length - 1)]!;
          let key = rootKey(salt);
          const keys: number[] = [];
          for (let start = 0; start + BLOCK < prompt.length; start += BLOCK) {
            key = blockKey(key, prompt, start, BLOCK);
            keys.push(key);
          }
          predicted.push((current()?.numUsable(keys, () => false) ?? 0) * BLOCK);
          const before = await hits();
          const revision = current()?.revision ?? -1;
          const response = await fetch(`${target!.url}/v1/completions`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({
              model: "m",
              prompt,
              max_tokens: 1,
              temperature: 0,
              ...(salt === "" ? {} : { cache_salt: salt }),
            }),
          });
          expect(response.status).toBe(200);
          const isNew = predicted.at(-1)! < keys.length * BLOCK;
          if (isNew) await until(() => (current()?.revision ?? -1) > revision, "the events of a prompt");
          found.push((await hits()) - before);
        }
        expect(found).toEqual(predicted);
        expect(found.some((tokens) => tokens > 0)).toBe(true);
        return id;
      };

      const id = await run(NUM_REQUESTS);
      const { pid } = fleet.supervisor.instances().find((each) => each.id === id)!;
      process.kill(pid!, "SIGKILL");
      await until(() => watch.blocksOf(fleet.supervisor.upstreams("m")[0]!) === undefined, "the cache to be unknown");
      await run(NUM_REQUESTS / 3);
      watch.close();
    },
    3 * START_MS,
  );
});
