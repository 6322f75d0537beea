/** How long the hub may take for the header of a model: as long as it sends, and not longer. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { withRemoteHeader } from "./remote-header.js";

const SHARDS = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"];
const MIB = 2 ** 20;

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => vi.useRealTimers());

/** A hub that takes `chunkMs` for each quarter of a MiB, and sends `numChunks` of them at most. */
function slowHub(chunkMs: number, numChunks = Number.POSITIVE_INFINITY): typeof fetch {
  const listing = SHARDS.map((path) => ({ type: "file", path, size: 2 * MIB, oid: "0" }));
  return async (input, init) => {
    init?.signal?.throwIfAborted();
    if (String(input).includes("/api/models/")) return Response.json(listing);
    let numSent = 0;
    const source = new ReadableStream(
      {
        start: (controller) => init?.signal?.addEventListener("abort", () => controller.error(init.signal?.reason)),
        async pull(controller) {
          const isSilent = numSent++ >= numChunks;
          await vi.advanceTimersByTimeAsync(isSilent ? 25_000 : chunkMs);
          if (!isSilent) controller.enqueue(new Uint8Array(MIB / 4));
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(source);
  };
}

const readFrom = (hub: typeof fetch): Promise<string | undefined> =>
  withRemoteHeader("hf:org/m", { fetch: hub, endpoint: "http://hub.test" }, async () => "header");

test("a hub that sends slowly is read to the end", async () => {
  expect(await readFrom(slowHub(15_000))).toBe("header");
});

test.each([0, 2])("a hub that is silent after %d chunks is given up", async (numChunks) => {
  await expect(readFrom(slowHub(1000, numChunks))).rejects.toMatchObject({
    code: "hub_unreachable",
    message: expect.stringContaining("got nothing for 20 s"),
  });
});
