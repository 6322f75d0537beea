/** A model's own layer for multi-token prediction: what it drafts, and that drafts change nothing. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { draftsAfter } from "../../../test/helpers/guesses.js";
import { MTP_MODELS, type MtpModel, writeMtpFolder } from "../../../test/helpers/mtp-folder.js";

/** As test/fixtures/make-mtp-layers.py writes it. */
interface Expected {
  readonly ids: readonly number[];
  readonly drafts: Readonly<Record<MtpModel, Readonly<Record<string, ExpectedDraft>>>>;
}
interface ExpectedDraft {
  readonly tokens: readonly number[];
  readonly chances: readonly number[];
}
const { ids, drafts } = JSON.parse(readFileSync(fixture("mtp/expected.json"), "utf8")) as Expected;

/** F32 sums in another order. */
const TOLERANCE = 5e-5;

const root = mkdtempSync(join(tmpdir(), "millrace-mtp-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

function expectDrafts(got: Awaited<ReturnType<typeof draftsAfter>>, expected: readonly (ExpectedDraft | undefined)[]) {
  expected.forEach((draft, index) => {
    expect(got[index]!.tokens).toEqual(draft!.tokens);
    draft!.chances.forEach((chance, i) => {
      expect(Math.abs(got[index]!.chances[i]! - chance)).toBeLessThan(TOLERANCE);
    });
  });
}

describe.each(MTP_MODELS)("drafts of the layer of %s", (name) => {
  const of = (length: number) => ids.slice(0, length);
  const [shortest, middle, longest] = [2, 17, ids.length].map((length) => drafts[name][length]!);

  test("are those that transformers' layer makes, alone and together, by chunks, steps and drafts that fail", async () => {
    const folder = writeMtpFolder(name, place());
    for (const [requests, expected] of [
      [[2, 17, ids.length].map((length) => ({ ids: of(length) })), [shortest, middle, longest]],
      [
        [{ ids: of(17), chunk: 3 }, { ids: of(2) }, { ids: of(41), chunk: 7 }],
        [middle, shortest, longest],
      ],
      [[{ ids: of(41), numPrompt: 20 }], [longest]],
      [
        [
          { ids: of(41), numPrompt: 20, numRight: 2 },
          { ids: of(17), numPrompt: 5, numRight: 0 },
        ],
        [longest, middle],
      ],
    ] as const) {
      expectDrafts(await draftsAfter(folder, undefined, requests, 6, "f32"), expected);
    }
  });
});
