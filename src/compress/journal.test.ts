/** Runs that are stopped repeatedly write the same bytes as an uninterrupted run. */
import { createHash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { expect, test, vi } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { cases, isLongRun, someOf } from "../../test/helpers/long.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import { readGguf } from "../formats/gguf/read.js";
import { resultOf, type TaskResult } from "../quality/run-task.js";
import type { EvalTask } from "../quality/tasks.js";
import type { Candidate } from "./card.js";
import { isFolderMethod } from "./folder-formats.js";
import { keptImportance } from "./importance.js";
import { type Journal, journaled, outputsOf } from "./journal.js";
import { chooseTypes } from "./mixed.js";
import { assertFree, type QuantiseSettings, quantise } from "./quantise.js";

const asked = vi.hoisted(() => ({ numTimes: 0 }));

/** The engines' threads need a build, so a stub answers every question wrongly here. */
vi.mock("../lab/eval-target.js", () => ({
  openEvalTarget: async () => ({
    run: async ({ name, chats }: EvalTask): Promise<TaskResult> => {
      asked.numTimes++;
      const items = chats.map(({ messages }) => ({
        prompt: messages,
        answer: "yes",
        expected: "no",
        score: 0,
        exact: false,
        numPromptTokens: 1,
        numOutputTokens: 1,
        end: "stop" as const,
      }));
      return resultOf(name, items, 1);
    },
    close: async () => {},
  }),
}));

const STUDENT = join(repositoryRoot(), "models/mill-student.gguf");
const TEXTS = [40, 50].map((length) => Array.from({ length }, (_, i) => (i * 37 + length) % 4000));
const { signal } = new AbortController();

interface Wanted extends Pick<QuantiseSettings, "methods" | "layout" | "rounding" | "scaling"> {
  readonly heldOut: QuantiseSettings["heldOut"];
  readonly gate?: QuantiseSettings["gate"];
  readonly maxBytes?: number;
}

const USUAL = { layout: "compressed-tensors", rounding: "nearest", scaling: undefined, heldOut: [] } as const;

class Stopped extends Error {}

/** Stops a run at its `count`-th progress message that matches the pattern. @param told receives all messages */
function stagesUntil(count: number, told: string[] = [], pattern = /^/): StartStage {
  let left = count;
  const hear = (text: string): void => {
    told.push(text);
    if (pattern.test(text) && --left <= 0) throw new Stopped();
  };
  return (name) => ({ update: hear, note: (text) => hear(`${name}: ${text}`), done: hear });
}

const toTheEnd = () => stagesUntil(Number.POSITIVE_INFINITY);

const nameOf = ({ methods: [method] }: Wanted): string => (isFolderMethod(method!) ? "copy" : "copy.gguf");

/** Runs the command's steps. */
async function run(
  root: string,
  wanted: Wanted,
  startStage: StartStage,
  onCandidate: (candidate: Candidate) => void = () => {},
) {
  const [out, saveTo] = [join(root, nameOf(wanted)), join(root, "importance.gguf")];
  assertFree({ out, methods: wanted.methods }, [saveTo], outputsOf(out));
  return journaled(out, { "--method": wanted.methods }, async (journal: Journal) => {
    const calibration = { model: STUDENT, texts: TEXTS, source: "texts", saveTo, numThreads: 1, journal };
    const importance = await keptImportance(calibration, startStage, signal);
    const settings: QuantiseSettings = {
      gate: undefined,
      ...wanted,
      model: STUDENT,
      out,
      importance,
      texts: TEXTS,
      about: { model: "student", calibration: undefined, evals: undefined },
      numThreads: 1,
      journal,
      ...(wanted.maxBytes !== undefined && { types: await typesOf(wanted, importance, journal, startStage) }),
    };
    return await quantise(settings, startStage, onCandidate, signal);
  });
}

async function typesOf(
  { maxBytes, heldOut }: Wanted,
  importance: QuantiseSettings["importance"],
  { folder, recall }: Journal,
  startStage: StartStage,
) {
  const encoder = createRowEncoder(1);
  const settings = { model: STUDENT, folder, maxBytes: maxBytes!, importance, heldOut, numThreads: 1, recall };
  try {
    const choices = await chooseTypes(settings, encoder, startStage, signal);
    return new Map(choices.map(({ group, type }) => [group, type]));
  } finally {
    encoder.close();
  }
}

const digestOf = (text: string): string => createHash("sha256").update(text, "latin1").digest("hex");

/** Digests of the contents by name, for a folder and all folders in it. */
const contentOf = (root: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((path) => [path.slice(root.length), digestOf(readFileSync(path, "latin1").replaceAll(root, ""))]),
  );

/** Stops runs until one finishes. @returns the runs' messages */
async function runStopped(
  root: string,
  wanted: Wanted,
  stagesOf: (index: number, told: string[]) => StartStage,
  between: (index: number) => void = () => {},
): Promise<readonly string[]> {
  const told: string[] = [];
  for (let index = 0; ; index++) {
    try {
      await run(root, wanted, stagesOf(index, told));
      return told;
    } catch (thrown) {
      if (!(thrown instanceof Stopped)) throw thrown;
    }
    between(index);
  }
}

/** Each run is stopped a little later than the previous one. */
const later = (step: number) => (index: number, told: string[]) => stagesUntil(3 + step * index, told);

async function wholeOf(wanted: Wanted) {
  const root = tempTree({});
  const { chosen } = await run(root, wanted, toTheEnd());
  return { content: contentOf(root), chosen };
}

/** Number of tensors that a run writes before it is stopped. */
const STEP = cases(9, 1);

test("a file whose run is stopped after a few tensors, with the bytes of the next one written", async () => {
  const wanted = { ...USUAL, methods: ["Q4_K_M"], rounding: "gptq", scaling: "awq" } as const;
  const { content } = await wholeOf(wanted);
  const root = tempTree({});
  const told = await runStopped(root, wanted, (_, heard) => stagesUntil(STEP + 1, heard, /% written/));
  expect(contentOf(root)).toEqual(content);
  const found = told.filter((text) => text.startsWith("Q4_K_M: resumed: "));
  const of = readGguf(join(root, "copy.gguf")).tensors.size;
  expect(found).toEqual(found.map((_, index) => `Q4_K_M: resumed: ${STEP * (index + 1)} of ${of} tensors were there`));
  expect(found).toHaveLength(Math.ceil(of / STEP) - 1);
  expect(of).toBeGreaterThan(20);
});

const FOLDERS = [
  // The search for scales takes most of a run, and its journal entries do not depend on the layout.
  { ...USUAL, methods: ["INT4_32"], layout: "awq", scaling: "none" },
  { ...USUAL, methods: ["INT4_32"], rounding: "gptq" },
  { ...USUAL, methods: ["INT4_32"], layout: "gptq", scaling: "none" },
  { ...USUAL, methods: ["INT8"], scaling: "none", heldOut: TEXTS },
] as const;

test.each(
  someOf<(typeof FOLDERS)[number]>(FOLDERS, 2),
)("a folder of $methods in $layout, rounded $rounding, stopped at any progress", async (wanted) => {
  const { content, chosen } = await wholeOf(wanted);
  const root = tempTree({});
  await runStopped(root, wanted, later(cases(40, 15)));
  expect(contentOf(root)).toEqual(content);
  expect(chosen!.path).toBe(join(chosen!.path, "../copy"));
});

// In npm test, mixed.test.ts covers the choice, and the tests above cover reuse of measurements.
test.runIf(isLongRun)(
  "types for a size, stopped between probes (needs npm run test:long)",
  async () => {
    const wanted = { ...USUAL, methods: ["MIXED"], scaling: "none", heldOut: TEXTS, maxBytes: 900_000 } as const;
    const { content } = await wholeOf(wanted);
    const root = tempTree({});
    let numStopped = 0;
    const told = await runStopped(root, wanted, later(9), () => numStopped++);
    expect(contentOf(root)).toEqual(content);
    // Each group is measured once, except those at which a run was stopped.
    const groups = told.filter((text) => /, \d+ of \d+$/.test(text));
    expect(numStopped).toBeGreaterThan(2);
    expect(groups.length).toBeLessThanOrEqual(new Set(groups).size + numStopped);
  },
  180_000,
);

/** Changes bytes before a file's end. */
function damage(path: string, numBytes: number): void {
  const bytes = readFileSync(path);
  bytes.subarray(-numBytes).fill(0x5a);
  writeFileSync(path, bytes);
}

test("what a crash tore, cut off, lost or mixed up is made again", async () => {
  const wanted = { ...USUAL, methods: ["Q4_0"], scaling: "none" } as const;
  const { content } = await wholeOf(wanted);
  const cutTo = (path: string, share: number) => truncateSync(path, Math.floor(share * statSync(path).size));
  const accidents: readonly ((at: (name: string) => string) => void)[] = [
    (at) => cutTo(at("Q4_0.gguf"), 0.7),
    (at) => damage(at("Q4_0.gguf"), statSync(at("Q4_0.gguf")).size / 2),
    (at) => appendFileSync(at("Q4_0.gguf"), "more than there was"),
    (at) => damage(at("Q4_0.gguf"), statSync(at("Q4_0.gguf")).size),
    (at) => rmSync(at("Q4_0.gguf")),
    (at) => cutTo(at("journal"), 0.9),
    (at) => appendFileSync(at("journal"), Buffer.alloc(4096)),
    (at) => appendFileSync(at("journal"), "no line of a journal\n"),
    (at) => damage(at("journal"), 300),
    (at) => damage(at("importance.gguf"), 100),
    (at) => rmSync(at("importance.gguf")),
  ];
  for (const happen of someOf(accidents, 5)) {
    const root = tempTree({});
    await expect(run(root, wanted, stagesUntil(20, [], /% written/))).rejects.toThrow(Stopped);
    happen((name) => join(root, "copy.gguf.partial", name));
    await run(root, wanted, toTheEnd());
    expect(contentOf(root)).toEqual(content);
  }
});

test("a run that was stopped when its file had its name goes on behind that; a file that was removed is made again", async () => {
  const wanted = { ...USUAL, methods: ["Q4_0"], scaling: "none" } as const;
  const { content } = await wholeOf(wanted);
  const root = tempTree({});
  const out = join(root, "copy.gguf");
  const candidates: unknown[] = [];
  const untilNamed = () =>
    run(root, wanted, toTheEnd(), () => {
      throw new Stopped();
    });
  await expect(untilNamed()).rejects.toThrow(Stopped);
  const { ino } = statSync(out);
  expect(existsSync(`${out}.partial`)).toBe(true);
  await run(root, wanted, toTheEnd(), (candidate) => candidates.push(candidate));
  expect([statSync(out).ino, candidates.length, existsSync(`${out}.partial`)]).toEqual([ino, 1, false]);
  expect(contentOf(root)).toEqual(content);
  await expect(run(root, wanted, stagesUntil(1))).rejects.toThrow(/expected nothing at/);
  for (const name of ["copy.gguf", "copy.md", "importance.gguf"]) rmSync(join(root, name));
  await expect(untilNamed()).rejects.toThrow(Stopped);
  rmSync(out);
  await run(root, wanted, toTheEnd());
  expect(contentOf(root)).toEqual(content);
});

test("methods whose files did not pass are not tried again", async () => {
  const chats = ["One", "Two"].map((content) => ({
    family: "count",
    messages: [
      { role: "user" as const, content },
      { role: "assistant" as const, content: "no" },
    ],
    check: { kind: "exact" as const },
  }));
  const engine = { ...DEFAULT_ENGINE_OPTIONS, numThreads: 1 };
  const evaluation = { temperature: 0, maxTokens: 4, seed: 0, concurrency: 1, engine };
  const gate = { tasks: [{ name: "count", chats }], maxDrop: 0.02, evaluation };
  const wanted = { ...USUAL, methods: ["Q2_K", "Q4_0"], scaling: "none", gate } as const;
  const { content, chosen } = await wholeOf(wanted);
  expect([chosen, asked.numTimes]).toEqual([undefined, 3]);
  const root = tempTree({});
  const names: string[] = [];
  const tell = ({ path }: Candidate): void => {
    names.push(basename(path));
    if (names.length === 1) throw new Stopped();
  };
  await expect(run(root, wanted, toTheEnd(), tell)).rejects.toThrow(Stopped);
  await run(root, wanted, toTheEnd(), tell);
  expect(names).toEqual(["copy.Q2_K.undecided.gguf", "copy.Q2_K.undecided.gguf", "copy.Q4_0.undecided.gguf"]);
  expect(asked.numTimes).toBe(6);
  expect(contentOf(root)).toEqual(content);
});

const beginning = (out: string, identity: Record<string, unknown>) =>
  journaled(out, identity, async (journal) => {
    journal.set("much work", 1);
    throw new Stopped();
  });

test("what another run has begun is not used and not removed, unless it had come to nothing", async () => {
  const root = tempTree({ "taken.partial/theirs": "kept", "file.partial": "kept", "odd.partial/journal/x": "kept" });
  const out = join(root, "copy");
  await expect(beginning(out, { "--method": ["Q4_0"], a: 1 })).rejects.toThrow(Stopped);
  const other = journaled(out, { "--method": ["Q5_0"], a: 1 }, async () => {});
  await expect(other).rejects.toMatchObject({
    code: "invalid_option",
    message: expect.stringMatching(/left \S+copy\.partial, got one with another --method$/),
    hint: expect.stringContaining(`remove ${out}.partial`),
  });
  expect(await journaled(out, { "--method": ["Q4_0"], a: 1 }, async (journal) => journal.get("much work"))).toBe(1);
  expect(existsSync(`${out}.partial`)).toBe(false);
  mkdirSync(`${out}.partial`);
  expect(await journaled(out, {}, async ({ isResumed }) => isResumed)).toBe(false);
  for (const name of ["taken", "file", "odd"]) {
    const refused = journaled(join(root, name), {}, async () => {});
    await expect(refused).rejects.toThrow(/expected nothing or an unfinished copy at/);
  }
  expect(Object.keys(contentOf(root)).sort()).toEqual([
    "/file.partial",
    "/odd.partial/journal/x",
    "/taken.partial/theirs",
  ]);
});

test("two runs at once: the second is refused, and the first one ends", async () => {
  const out = join(tempTree({}), "copy");
  const both = journaled(out, {}, async () => {
    await expect(journaled(out, {}, async () => {})).rejects.toThrow(/expected no other run at work on/);
    return "ended";
  });
  expect(await both).toBe("ended");
});

test("nothing is left where the same command would be refused again, or where nothing was done; a full disk loses nothing", async () => {
  const root = tempTree({});
  const out = join(root, "copy");
  const failing = (error: Error) =>
    journaled(out, {}, async (journal) => {
      journal.set("work", 1);
      throw error;
    });
  await expect(failing(new MillraceError("invalid_option", "no"))).rejects.toThrow("no");
  expect(readdirSync(root)).toEqual([]);
  const empty = journaled(out, {}, async () => {
    throw new Stopped();
  });
  await expect(empty).rejects.toThrow(Stopped);
  expect(readdirSync(root)).toEqual([]);
  const full = failing(Object.assign(new Error("ENOSPC: no space"), { code: "ENOSPC" }));
  await expect(full).rejects.toMatchObject({ code: "invalid_option", hint: expect.stringContaining("is kept") });
  const cause = Object.assign(new Error("write"), { code: "ENOSPC", syscall: "write" });
  await expect(failing(new MillraceError("invalid_option", "no room", { cause }))).rejects.toThrow("no room");
  expect(readdirSync(root)).toEqual(["copy.partial"]);
  const [negative, none] = [{ kl: Number.NaN, most: [Number.NEGATIVE_INFINITY] }, undefined];
  const kept = await journaled(out, {}, async (journal) => {
    await journal.recall("figures", () => negative);
    return [journal.get("work"), await journal.recall("figures", () => none)];
  });
  expect(kept).toEqual([1, negative]);
  expect(readdirSync(root)).toEqual([]);
});
