import { describe, expect, test } from "vitest";
import { MillraceError } from "../../core/errors.js";
import type { RopeConfig } from "./rope.js";
import { ropeFrequencies } from "./rope.js";

const PLAIN: RopeConfig = {
  dim: 8,
  base: 10_000,
  scaling: "none",
  factor: 1,
  originalContextLength: 4096,
  betaFast: 32,
  betaSlow: 1,
  roundsYarnRange: true,
  attentionFactor: 1,
};

describe("rope frequencies", () => {
  test("plain: base^(−2i/dim)", () => {
    const { invFreq, magnitude } = ropeFrequencies(PLAIN, undefined);
    expect([...invFreq]).toEqual([1, 0.1, 0.01, 0.001].map(Math.fround));
    expect(magnitude).toBe(1);
  });

  test("linear scaling and factors divide", () => {
    const { invFreq } = ropeFrequencies({ ...PLAIN, scaling: "linear", factor: 4 }, Float32Array.of(1, 2, 4, 8));
    expect([...invFreq]).toEqual([1 / 4, 0.1 / 8, 0.01 / 16, 0.001 / 32].map(Math.fround));
  });

  test("YaRN keeps fast pairs, interpolates slow ones, and scales the magnitude", () => {
    const rope: RopeConfig = {
      ...PLAIN,
      dim: 128,
      base: 1e6,
      scaling: "yarn",
      factor: 4,
      originalContextLength: 32_768,
    };
    const { invFreq, magnitude } = ropeFrequencies(rope, undefined);
    const plain = ropeFrequencies({ ...rope, scaling: "none" }, undefined).invFreq;
    // By the paper's formula: pairs up to ⌊128·ln(32768/(32·2π))/(2·ln 10⁶)⌋ = 23 are kept, from
    // ⌈128·ln(32768/2π)/(2·ln 10⁶)⌉ = 40 on divided by 4.
    expect(invFreq.subarray(0, 24)).toEqual(plain.subarray(0, 24));
    expect([...invFreq.subarray(40)]).toEqual([...plain.subarray(40)].map((f) => Math.fround(f / 4)));
    expect(invFreq[31]! / plain[31]!).toBeCloseTo(1 - (8 / 17) * 0.75, 6);
    expect(magnitude).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
  });

  test("YaRN's range is whole pairs, or what the formula says (gpt-oss)", () => {
    const rope: RopeConfig = {
      ...PLAIN,
      dim: 64,
      base: 150_000,
      scaling: "yarn",
      factor: 32,
      originalContextLength: 4096,
    };
    const scale = (roundsYarnRange: boolean, pair: number) =>
      ropeFrequencies({ ...rope, roundsYarnRange }, undefined).invFreq[pair]! * 150_000 ** ((2 * pair) / 64);
    // 64·ln(4096/(32·2π))/(2·ln 150000) = 8.0928, 64·ln(4096/2π)/(2·ln 150000) = 17.3980.
    const at = (low: number, high: number, pair: number) => 1 - ((pair - low) / (high - low)) * (31 / 32);
    expect(scale(true, 9)).toBeCloseTo(at(8, 18, 9), 5);
    expect(scale(false, 9)).toBeCloseTo(at(8.0928, 17.398, 9), 4);
    expect(scale(false, 8)).toBeCloseTo(1, 6);
    expect(scale(false, 17)).toBeCloseTo(at(8.0928, 17.398, 17), 4);
    expect(scale(false, 18)).toBeCloseTo(1 / 32, 6);
  });

  test("factors of the wrong length or sign are refused", () => {
    for (const factors of [Float32Array.of(1, 2), Float32Array.of(1, 1, 0, 1), Float32Array.of(1, 1, Number.NaN, 1)]) {
      expect(() => ropeFrequencies(PLAIN, factors)).toThrow(MillraceError);
    }
  });
});
