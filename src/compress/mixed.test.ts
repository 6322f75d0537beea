import fc from "fast-check";
import { expect, test } from "vitest";
import { allocate, groupOf } from "./mixed.js";

test("matrices of one kind in one third of the layers are a group; vectors, routers and gates of states are in none", () => {
  const matrix = (name: string) => groupOf({ name, shape: [8, 8] }, 6);
  expect(matrix("blk.0.attn_q.weight")).toBe("attn_q first third");
  expect(matrix("blk.3.attn_q.weight")).toBe("attn_q middle third");
  expect(matrix("blk.5.ffn_down_exps.weight")).toBe("ffn_down_exps last third");
  expect(matrix("output.weight")).toBe("output");
  for (const name of ["ffn_gate_inp", "ffn_gate_inp_shexp", "ssm_alpha", "ssm_beta", "ssm_ba"]) {
    expect(matrix(`blk.0.${name}.weight`)).toBeUndefined();
  }
  expect(groupOf({ name: "blk.0.attn_norm.weight", shape: [8] }, 6)).toBeUndefined();
});

/** Squared errors by LADDER; they fall as types grow. */
const ERRORS = [60, 20, 7, 5, 1.5, 0.5, 0.03];
const measuredOf = (kls: readonly number[], rows = 256) =>
  kls.map((probeKl, i) => ({
    group: { name: String(i), tensors: [{ name: `blk.${i}.attn_q.weight`, shape: [rows, 256] as const }] },
    probeKl,
    errors: ERRORS,
  }));

/** The predicted KL divergence of a choice. */
const expectedKl = (choices: NonNullable<ReturnType<typeof allocate>>): number =>
  choices.reduce((sum, { type, probeKl }) => {
    const level = ["Q2_K", "Q3_K", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K", "Q8_0"].indexOf(type);
    return sum + (probeKl * ERRORS[level]!) / ERRORS[1]!;
  }, 0);

test("bits go where they save most, and no more than there are", () => {
  const room = 3 * 256 * 144 + 100;
  const choices = allocate(measuredOf([0.001, 1, 0.01]), room)!;
  const bytesOf = (name: string) => choices.find(({ group }) => group === name)!.numBytes;
  expect(bytesOf("1")).toBeGreaterThan(bytesOf("2"));
  expect(bytesOf("2")).toBeGreaterThanOrEqual(bytesOf("0"));
  expect(allocate(measuredOf([0.1, 0.1, 0.1]), 3 * 256 * 84 - 1)).toBeUndefined();
  expect(allocate(measuredOf([0.1]), 256 * 84)).toMatchObject([{ type: "Q2_K" }]);
  expect(allocate(measuredOf([0.1]), 1e9)).toMatchObject([{ type: "Q8_0" }]);
});

test("choices fit, and more room is never worse by more than one step", () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 2, noNaN: true }), { minLength: 1, maxLength: 8 }),
      fc.nat(100_000),
      fc.nat(100_000),
      (kls, extra, more) => {
        const least = kls.length * 256 * 84;
        const [small, large] = [least + extra, least + extra + more].map((room) => allocate(measuredOf(kls), room)!);
        expect(small!.reduce((sum, { numBytes }) => sum + numBytes, 0)).toBeLessThanOrEqual(least + extra);
        const largestStep = Math.max(...kls) * 3;
        expect(expectedKl(large!)).toBeLessThanOrEqual(expectedKl(small!) + largestStep);
      },
    ),
    { seed: 3 },
  );
});
