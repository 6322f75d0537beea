/**
 * Whoever follows the changes knows what the cache holds: random histories of prompts in a memory too small for them.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { cacheOf } from "../../../test/helpers/kv-cache.js";
import { CachedBlocks } from "../../text/cached-blocks.js";
import { STATE_WINDOW } from "./windows.js";

const step = fc.record({
  prompt: fc.array(fc.nat(1), { minLength: 1, maxLength: 5 }),
  isFollowed: fc.boolean(),
});

test.each([
  ["everything is seen", [0], undefined],
  ["a window beside", [0, 8], undefined],
  ["windows only", [8], undefined],
  ["recurrent states beside", [0], 3],
])("%s", (_, windows, numStates) => {
  const reported = numStates === undefined ? windows : [...windows, STATE_WINDOW];
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.nat(59), (steps, joinsAt) => {
      const cache = cacheOf(windows, numStates);
      let blocks: CachedBlocks | undefined;
      steps.forEach(({ prompt, isFollowed }, i) => {
        cache.compute(prompt);
        if (i < joinsAt || !isFollowed) return;
        const changes = cache.kv.takeChanges();
        if (blocks === undefined) blocks = new CachedBlocks(reported, cache.blockSize, 0, changes);
        else blocks.apply(changes);
        for (const each of steps) {
          expect(blocks.numUsable(cache.keysOf(each.prompt), () => false)).toBe(cache.numCached(each.prompt));
        }
      });
    }),
  );
});
