import { expect, test } from "vitest";
import { parseFlags } from "./configuration.js";

test("flags have at most one value, and a word that belongs to none is refused", () => {
  expect(parseFlags(["--threads", "1", "--dtype=f16", "--bias", "-1", "--no-enable-prefix-caching"])).toEqual({
    threads: "1",
    dtype: "f16",
    bias: "-1",
    "no-enable-prefix-caching": "",
  });
  for (const [words, stray] of [
    [["-tp", "2"], "-tp"],
    [["--lora-modules", "a=x", "b=y"], "b=y"],
    [["--dtype=f16", "f32"], "f32"],
  ] as const) {
    expect(() => parseFlags(words)).toThrow(`expected --flag or --flag value in --server-args, got ${stray}`);
  }
});
