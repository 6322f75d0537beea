/** The cache of packed weights over a real model: hits, misses, damage, the size cap; and what loading through it leaves in memory. */
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { request, runAlone } from "../../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { loadKernels } from "../../kernels/load.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api.js";
import { EngineCore } from "../engine-core.js";
import { openModel } from "../model/open-model.js";
import { PackCache } from "./pack-cache.js";

const LAYOUT_VERSION = loadKernels().packedLayoutVersion();
const BYTES = 2 ** 30;
/** Nine layers of 1024 × (1024 + 512 + 512 + 1024 + 3 × 4096) values and the output, 17 bytes for 32. */
const PACKED_BYTES = ((9 * 1024 * 15_360 + 384 * 1024) * 17) / 32;
let root: string;
let folder: string;
let model: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "millrace-packs-"));
  model = join(root, "large.gguf");
  // Just above the size from which packs are kept.
  const shape = { architecture: "llama", seed: 3, type: "MXFP4", width: 1024, ff: 4096, heads: 8 } as const;
  writeRandomModel(model, { ...shape, layers: 9, vocab: 384 });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  folder = mkdtempSync(join(root, "cache-"));
});

interface Load {
  readonly tokens: readonly number[];
  readonly stages: readonly string[];
  readonly notes: readonly string[];
}

/** Loads the model and takes a few tokens. */
function load(path = model, packCache = { folder, maxBytes: BYTES }): Load {
  const device = loadKernels().createDevice({ numThreads: 2 });
  const stages: string[] = [];
  const notes: string[] = [];
  try {
    const own = { modelPath: path, numThreads: 2, maxModelLen: 64, kvCacheMemoryBytes: 2 ** 24, packCache };
    const core = new EngineCore(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...own }, device, 0, {
      progress: (stage) => stages.push(stage),
      note: (text) => notes.push(text),
    });
    const { tokenIds } = runAlone(core, request(Int32Array.of(5, 6, 7), { maxTokens: 8 }));
    return { tokens: tokenIds, stages, notes };
  } finally {
    device.destroy();
  }
}

const packs = () => readdirSync(folder).filter((name) => name.endsWith(".pack"));
const wasPacked = ({ stages }: Load) => stages.includes("packing the weights");

describe("the pack cache", () => {
  it("packs once, and answers the same from the pack as from memory", () => {
    const first = load();
    const second = load();
    const inMemory = load(model, { folder: join(root, "none"), maxBytes: 1 });
    expect([wasPacked(first), wasPacked(second), wasPacked(inMemory)]).toEqual([true, false, true]);
    expect(second.stages).toEqual([]);
    expect(second.tokens).toEqual(first.tokens);
    expect(inMemory.tokens).toEqual(first.tokens);
    expect(inMemory.notes).toEqual([expect.stringContaining("at most 1 bytes")]);
    expect(packs()).toHaveLength(1);
  });

  it("knows the same content under another path and date, and other content under the same path", () => {
    load();
    const copy = join(root, "copy.gguf");
    copyFileSync(model, copy);
    expect(wasPacked(load(copy))).toBe(false);
    expect(packs()).toHaveLength(1);
    const bytes = readFileSync(copy);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(copy, bytes);
    utimesSync(copy, new Date(), new Date(Date.now() + 10_000));
    expect(wasPacked(load(copy))).toBe(true);
    expect(packs()).toHaveLength(2);
  });

  it("takes damaged and cut-off packs for none", () => {
    const { tokens } = load();
    const pack = join(folder, packs()[0]!);
    const whole = readFileSync(pack);
    const damages: readonly (() => void)[] = [
      () => truncateSync(pack, whole.length - 1),
      () => truncateSync(pack, 20),
      () => writeFileSync(pack, ""),
      () => writeFileSync(pack, Buffer.concat([Buffer.from("NOTAPACK"), whole.subarray(8)])),
      () => writeFileSync(pack, Buffer.concat([whole.subarray(0, 60), Buffer.of(0), whole.subarray(61)])),
    ];
    for (const damage of damages) {
      damage();
      const again = load();
      expect(wasPacked(again)).toBe(true);
      expect(again.tokens).toEqual(tokens);
    }
  });

  it("packs into memory and says so where the folder cannot be written", () => {
    const file = join(root, "a-file");
    writeFileSync(file, "");
    const { tokens, notes } = load(model, { folder: join(file, "packed"), maxBytes: BYTES });
    expect(tokens).toHaveLength(8);
    expect(notes).toEqual([expect.stringMatching(/not kept.*(ENOTDIR|EEXIST)/)]);
  });

  it("lists, makes room by removing the longest unused, and clears", () => {
    load();
    const cache = new PackCache({ folder, maxBytes: BYTES }, LAYOUT_VERSION);
    const [listed] = cache.list();
    expect(listed).toMatchObject({ model: "large", isCurrent: true });
    using writer = new PackCache({ folder, maxBytes: listed!.numBytes }, LAYOUT_VERSION).begin("other", 1000, 1);
    expect(cache.list()).toEqual([]);
    expect(existsSync(writer.path)).toBe(true);
    expect(readdirSync(folder).filter((name) => name.endsWith(".ref"))).toHaveLength(1);
    load();
    expect(cache.clear("unknown")).toEqual([]);
    expect(cache.clear("large")).toMatchObject([{ model: "large" }]);
    expect(readdirSync(folder).filter((name) => !name.endsWith(".tmp"))).toEqual([]);
  });

  it.skipIf(!existsSync("/proc/self/clear_refs"))("loading takes little more memory than packed weights and KV", () => {
    const kilobytes = (field: string) =>
      Number(new RegExp(`^${field}:\\s*(\\d+) kB`, "m").exec(readFileSync("/proc/self/status", "utf8"))![1]);
    const kvBytes = 2 ** 24;
    for (const packCache of [
      { folder, maxBytes: BYTES },
      { folder, maxBytes: BYTES },
      { folder, maxBytes: 1 },
    ]) {
      // Sets the peak, VmHWM, back to the present size.
      writeFileSync("/proc/self/clear_refs", "5");
      const before = kilobytes("VmRSS");
      load(model, packCache);
      const grownBytes = (kilobytes("VmHWM") - before) * 1024;
      expect(grownBytes).toBeLessThan(1.15 * (PACKED_BYTES + kvBytes));
    }
  });

  it("a pack of another layout is a miss", () => {
    load();
    const older = new PackCache({ folder, maxBytes: BYTES }, LAYOUT_VERSION + 1);
    expect(older.find([model])).toBeUndefined();
    expect(older.list()).toMatchObject([{ isCurrent: false }]);
  });
});
