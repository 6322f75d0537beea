/**
 * The cache of packed weights over a real model: hits, misses, damage, the size cap, and how much memory a load takes.
 */
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { isLongRun } from "../../../test/helpers/long.js";
import {
  folderWith,
  type Load,
  loadThrough,
  PLENTY_BYTES,
  packsIn,
  wasPacked,
  writeLargeModel,
  writeSmallModel,
} from "../../../test/helpers/pack-loads.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import type { PackCacheOptions } from "../../backend/backend.js";
import { FileWatch } from "../../backend/cpu/file-watch.js";
import { loadKernels } from "../../backend/cpu/library/load.js";
import { PackCache } from "../../backend/cpu/packs/pack-cache.js";
import { PackCheck } from "../../backend/cpu/packs/pack-check.js";
import { type PackedMatrix, readPackTable } from "../../backend/cpu/packs/pack-file.js";

const LAYOUT_VERSION = loadKernels().packedLayoutVersion();
const BYTES = PLENTY_BYTES;
/** Less than the weights of the small model in any type. */
const LITTLE_BYTES = 2 ** 18;
/**
 * Of the large model: nine layers of 1024 × (1024 + 512 + 512 + 1024 + 3 × 4096) values and the output, 17 bytes for
 * 32.
 */
const PACKED_BYTES = ((9 * 1024 * 15_360 + 384 * 1024) * 17) / 32;
let root: string;
let folder: string;
let model: string;

beforeAll(() => {
  ({ root, model } = folderWith(writeSmallModel));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  folder = mkdtempSync(join(root, "cache-"));
});

const load = (
  path = model,
  packCache: PackCacheOptions = { folder, maxBytes: BYTES },
  freeBytes = BYTES,
): Promise<Load> => loadThrough(packCache, path, freeBytes);
const packs = () => packsIn(folder);

describe("the pack cache", () => {
  it("packs once, and answers the same from the pack as from memory", async () => {
    const first = await load();
    const second = await load();
    const inMemory = await load(model, { folder: join(root, "none"), maxBytes: 1 });
    expect([wasPacked(first), wasPacked(second), wasPacked(inMemory)]).toEqual([true, false, true]);
    expect(second.stages).toEqual([]);
    expect(second.tokens).toEqual(first.tokens);
    expect(inMemory.tokens).toEqual(first.tokens);
    expect(inMemory.notes).toEqual([expect.stringContaining("at most 1 bytes")]);
    expect(packs()).toHaveLength(1);
  });

  it("serves a model larger than the memory that is left, and says so", async () => {
    const fitting = await load();
    const larger = await load(model, { folder, maxBytes: BYTES }, LITTLE_BYTES);
    expect(fitting.notes).toEqual([]);
    expect(larger.notes).toEqual([expect.stringMatching(/weights \(\d.* MiB\) are larger than .* left \(256.0 KiB\)/)]);
    expect(larger.tokens).toEqual(fitting.tokens);
  });

  it("keeps no pack of a small model unless it is told to", async () => {
    const unkept = await load(model, { folder, maxBytes: BYTES, minModelBytes: undefined });
    expect([wasPacked(unkept), unkept.notes, packs()]).toEqual([true, [], []]);
  });

  it("leaves a model of float32 as it is stored, without reading it first", async () => {
    const path = join(root, "floats.gguf");
    writeSmallModel(path, "F32");
    expect(await load(path)).toMatchObject({ stages: [], notes: [] });
    expect(packs()).toEqual([]);
  });

  it.each([
    "F16",
    "BF16",
  ] as const)("leaves %s rows in their file where memory cannot hold their packs", async (type) => {
    const path = join(root, `${type}.gguf`);
    writeSmallModel(path, type);
    const kept = await load(path);
    expect([wasPacked(kept), kept.notes, packs()]).toEqual([true, [], [expect.any(String)]]);
    const noCache = { folder: join(root, "none"), maxBytes: 1 };
    expect(await load(path, noCache)).toMatchObject({
      stages: expect.arrayContaining(["packing the weights"]),
      notes: [expect.stringMatching(/so every start packs them again: .*at most 1 bytes/)],
    });
    const mapped = await load(path, noCache, LITTLE_BYTES);
    expect(mapped).toMatchObject({
      notes: [expect.stringContaining("except 16-bit weights"), expect.stringContaining("are larger than")],
    });
    expect([wasPacked(mapped), mapped.tokens.length]).toEqual([false, 8]);
  });

  it("takes a table that another version wrote otherwise for none", async () => {
    const { tokens } = await load();
    const path = join(folder, packs()[0]!);
    const table = readPackTable(path)!;
    const changes: readonly ((matrix: PackedMatrix) => object)[] = [
      // That version had no packed form of the type.
      ({ byteOffset: _, ...inRows }) => inRows,
      // It read the file's tensors as another type.
      (matrix) => ({ ...matrix, type: "F16" }),
      (matrix) => ({ ...matrix, type: "Q9_9" }),
    ];
    for (const change of changes) {
      const bytes = readFileSync(path);
      const json = Buffer.from(JSON.stringify({ ...table, matrices: table.matrices.map(change) }));
      bytes.writeUInt32LE(json.length, 8);
      createHash("sha256").update(json).digest().copy(bytes, 16);
      json.copy(bytes, 48);
      writeFileSync(path, bytes);
      expect(readPackTable(path)).toBeDefined();
      const again = await load();
      expect([wasPacked(again), again.notes, again.tokens]).toEqual([true, [], tokens]);
    }
  });

  it("packs each expert", async () => {
    const experts = join(root, "experts.gguf");
    const shape = {
      architecture: "qwen3moe",
      seed: 4,
      type: "MXFP4",
      width: 256,
      ff: 128,
      heads: 8,
      layers: 2,
    } as const;
    writeRandomModel(experts, { ...shape, experts: { count: 16, active: 4 } });
    const first = await load(experts);
    const second = await load(experts);
    expect([wasPacked(first), wasPacked(second), first.notes]).toEqual([true, false, []]);
    expect(second.tokens).toEqual(first.tokens);
    const { matrices } = readPackTable(join(folder, packs()[0]!))!;
    expect(matrices.filter(({ name }) => name === "blk.1.ffn_up_exps.weight").map(({ start }) => start)).toEqual(
      Array.from({ length: 16 }, (_, e) => 128 * e),
    );
    const inMemory = await load(experts, { folder: join(root, "none"), maxBytes: 1 });
    expect(inMemory.tokens).toEqual(first.tokens);
  });

  it("knows the same content under another path and date, and other content under the same path", async () => {
    await load();
    const copy = join(root, "copy.gguf");
    copyFileSync(model, copy);
    expect(wasPacked(await load(copy))).toBe(false);
    expect(packs()).toHaveLength(1);
    const bytes = readFileSync(copy);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(copy, bytes);
    utimesSync(copy, new Date(), new Date(Date.now() + 10_000));
    expect(wasPacked(await load(copy))).toBe(true);
    expect(packs()).toHaveLength(2);
  });

  it("takes damaged and cut-off packs for none", async () => {
    const { tokens } = await load();
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
      const again = await load();
      expect(wasPacked(again)).toBe(true);
      expect(again.tokens).toEqual(tokens);
    }
  });

  it("finds a flipped bit in a pack, says so and packs anew", async () => {
    const { tokens } = await load();
    const pack = join(folder, packs()[0]!);
    const whole = readFileSync(pack);
    whole[readPackTable(pack)!.matrices[10]!.byteOffset! + 12_345]! ^= 0x10;
    writeFileSync(pack, whole);
    const again = await load();
    expect(again.notes).toEqual([expect.stringMatching(/damaged and are packed again: .*\.pack/)]);
    expect([wasPacked(again), again.tokens]).toEqual([true, tokens]);
    expect((await load()).stages).toEqual([]);
  });

  it("of a large pack, finds it while it serves already, and removes the pack", async () => {
    await load();
    const pack = join(folder, packs()[0]!);
    const found = { path: pack, table: readPackTable(pack)! };
    const device = loadKernels().createDevice({ numThreads: 1 });
    try {
      const watch = new FileWatch(device);
      const file = device.mapFile(pack);
      watch.addPack(file, new PackCheck(device, file, found));
      let numSteps = 1;
      while (watch.tidy()) numSteps++;
      expect(numSteps).toBeGreaterThan(found.table.matrices.length);
      const whole = readFileSync(pack);
      whole[whole.length - 5]! ^= 1;
      writeFileSync(pack, whole);
      // Its date is other starts' to set: the bytes tell.
      watch.look(0);
      watch.addPack(file, new PackCheck(device, file, found));
      const lookAtAll = () => {
        while (watch.tidy()) {}
      };
      expect(lookAtAll).toThrow(expect.objectContaining({ code: "pack_damaged" }));
      expect(packs()).toEqual([]);
    } finally {
      device.destroy();
    }
  });

  it.skipIf(process.getuid === undefined)(
    "believes no pack that others can write, and none of another user",
    async () => {
      await load();
      chmodSync(folder, 0o777);
      const shared = await load();
      expect([wasPacked(shared), shared.notes]).toEqual([
        true,
        [expect.stringMatching(/only this user can write.*chmod 700/)],
      ]);
      chmodSync(folder, 0o700);
      const pack = join(folder, packs()[0]!);
      chmodSync(pack, 0o666);
      expect(wasPacked(await load())).toBe(true);
      expect(statSync(pack).mode & 0o777).toBe(0o600);
      if (process.getuid!() !== 0) return;
      chownSync(folder, 12_345, 12_345);
      expect((await load()).notes).toEqual([expect.stringContaining("only this user can write")]);
    },
  );

  it("packs into memory and says so where the folder cannot be written", async () => {
    const file = join(root, "a-file");
    writeFileSync(file, "");
    const { tokens, notes } = await load(model, { folder: join(file, "packed"), maxBytes: BYTES });
    expect(tokens).toHaveLength(8);
    expect(notes).toEqual([expect.stringMatching(/could not be cached.*(ENOTDIR|EEXIST)/)]);
  });

  it("lists, makes room by removing the longest unused, and clears", async () => {
    await load();
    const cache = new PackCache({ folder, maxBytes: BYTES }, LAYOUT_VERSION);
    const [listed] = cache.list();
    expect(listed).toMatchObject({ model: "model", isCurrent: true });
    using writer = new PackCache({ folder, maxBytes: listed!.numBytes }, LAYOUT_VERSION).begin("other", 1000, 1);
    expect(cache.list()).toEqual([]);
    expect(existsSync(writer.path)).toBe(true);
    expect(readdirSync(folder).filter((name) => name.endsWith(".ref"))).toHaveLength(1);
    await load();
    expect(cache.clear("unknown")).toEqual([]);
    expect(cache.clear("model")).toMatchObject([{ model: "model" }]);
    expect(readdirSync(folder).filter((name) => !name.endsWith(".tmp"))).toEqual([]);
  });

  it.skipIf(!isLongRun || !existsSync("/proc/self/clear_refs"))(
    "loading takes little more memory than packed weights and KV (needs npm run test:long)",
    async () => {
      const kilobytes = (field: string) =>
        Number(new RegExp(`^${field}:\\s*(\\d+) kB`, "m").exec(readFileSync("/proc/self/status", "utf8"))![1]);
      const kvBytes = 2 ** 24;
      const large = join(root, "large.gguf");
      writeLargeModel(large);
      const usual = { folder, minModelBytes: undefined };
      for (const packCache of [
        { ...usual, maxBytes: BYTES },
        { ...usual, maxBytes: BYTES },
        { ...usual, maxBytes: 1 },
      ]) {
        // Sets the peak, VmHWM, back to the present size.
        writeFileSync("/proc/self/clear_refs", "5");
        const before = kilobytes("VmRSS");
        await load(large, packCache);
        const grownBytes = (kilobytes("VmHWM") - before) * 1024;
        expect(grownBytes).toBeLessThan(1.15 * (PACKED_BYTES + kvBytes));
      }
      expect(packs()).toHaveLength(1);
    },
  );

  it("needs no reference to use a pack, where none can be written", async () => {
    await load();
    const [ref] = readdirSync(folder).filter((name) => name.endsWith(".ref"));
    rmSync(join(folder, ref!));
    mkdirSync(join(folder, ref!));
    const again = await load();
    expect([wasPacked(again), again.notes]).toEqual([false, []]);
    expect(readdirSync(folder).sort()).toEqual([...packs(), ref].sort());
  });

  it("each start removes what nobody is writing any more", () => {
    const temporary = (host: string, pid: number, ageMs: number) => {
      const name = `${"0".repeat(32)}.${host}.${pid}.tmp`;
      writeFileSync(join(folder, name), "");
      const changed = new Date(Date.now() - ageMs);
      utimesSync(join(folder, name), changed, changed);
      return name;
    };
    // Older than this process, so another one had its number then.
    temporary(hostname(), process.pid, process.uptime() * 1000 + 1000);
    const kept = [temporary(hostname(), process.ppid, 0), temporary("another.host", process.pid, 60_000)];
    temporary("another.host", 1, 3_600_000);
    expect(new PackCache({ folder, maxBytes: BYTES }, LAYOUT_VERSION).find({ files: [model] })).toBeUndefined();
    expect(readdirSync(folder).sort()).toEqual(kept.sort());
  });

  it("keeps a layer for multi-token prediction in a pack of its own", async () => {
    const drafting = join(root, "drafting.gguf");
    writeRandomModel(drafting, { architecture: "glm4moe", seed: 3, type: "Q8_0", draftLayers: 1 });
    const first = await load(drafting);
    expect([packs().length, first.notes]).toEqual([2, ["drafts: the model's own layer for multi-token prediction"]]);
    const again = await load(drafting);
    expect([packs().length, wasPacked(again)]).toEqual([2, false]);
    expect(again.tokens).toEqual(first.tokens);
    expect(new PackCache({ folder, maxBytes: BYTES }, LAYOUT_VERSION).clear("drafting")).toHaveLength(2);
  });

  it("a pack of another layout is a miss", async () => {
    await load();
    const older = new PackCache({ folder, maxBytes: BYTES }, LAYOUT_VERSION + 1);
    expect(older.find({ files: [model] })).toBeUndefined();
    expect(older.list()).toMatchObject([{ isCurrent: false }]);
  });
});
