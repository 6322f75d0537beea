/**
 * Which kernel files an instruction set has of its own, against what the files say: a branch for it in any other file
 * would never be compiled.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

type Variant = readonly [isa: string, flags: readonly string[], own?: readonly string[]];
const { VARIANTS } = (await import("../../scripts/build-native.js" as string)) as {
  VARIANTS: Readonly<Record<string, readonly Variant[]>>;
};

const folder = join(repositoryRoot(), "native/cpu/kernels");
const sources = readdirSync(folder).filter((name) => name.endsWith(".cc"));

/** These name instruction sets to say whose functions are called, and have no code. */
const NAMING = ["isa.h", "kernel.h"];

/** This file includes headers with products of bytes, and calls none of them. */
const WITHOUT_BYTES = "linear_packed_bfloats";

/** Whether the whole file is for another instruction set: its first line that is no comment says so. */
function isForAnother(name: string, macro: RegExp): boolean {
  const line = readFileSync(join(folder, name), "utf8")
    .split("\n")
    .find((each) => !each.startsWith("//"))!;
  return line.startsWith("#ifdef MILLRACE_ISA_") && !macro.test(line);
}

/** The file's text with that of all kernel headers that it includes. */
function textWithHeaders(name: string, seen = new Set<string>()): string {
  if (seen.has(name) || NAMING.includes(name)) return "";
  seen.add(name);
  const text = readFileSync(join(folder, name), "utf8");
  const headers = [...text.matchAll(/^#include "([^/"]+)"$/gm)].map((match) => match[1]!);
  return [text, ...headers.map((header) => textWithHeaders(header, seen))].join("\n");
}

const partial = Object.values(VARIANTS)
  .flat()
  .flatMap(([isa, , own]) => (own === undefined ? [] : [{ isa, own }]));

test.each(partial)("$isa has every file of its own that has a branch for it", ({ isa, own }) => {
  const macro = new RegExp(`\\bMILLRACE_ISA_${isa.toUpperCase()}\\b`);
  const branching = sources
    .filter((name) => macro.test(textWithHeaders(name)) && !isForAnother(name, macro))
    .map((name) => name.replace(".cc", ""))
    .filter((name) => isa !== "avx512vnni" || name !== WITHOUT_BYTES);
  expect(branching).not.toEqual([]);
  expect(own).toEqual(expect.arrayContaining(branching));
  expect(sources).toEqual(expect.arrayContaining(own.map((name) => `${name}.cc`)));
});
