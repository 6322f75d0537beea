import { expect, test } from "vitest";
import { byteSize, integerIn, listOf, numberIn, oneOf, seedValue, type ValueParser } from "./option-values.js";

const integer = integerIn("--n", 1, 10);
const number = numberIn("--t", 0, 2);
const seed = seedValue("--seed");
const bytes = byteSize("--size");
const choice = oneOf("--kind", ["a", "b"]);

const ACCEPTED: readonly [string, ValueParser<unknown>, string, unknown][] = [
  ["an integer at its lower bound", integer, "1", 1],
  ["an integer at its upper bound", integer, "10", 10],
  ["a fraction", number, "0.5", 0.5],
  ["a seed of 64 bits", seed, "18446744073709551615", 18446744073709551615n],
  ["a negative seed, wrapped", seed, "-1", 18446744073709551615n],
  ["plain bytes", bytes, "1048576", 1048576],
  ["binary units", bytes, "8GiB", 8 * 2 ** 30],
  ["decimal units", bytes, "1.5GB", 1.5e9],
  ["vLLM's capital letters, binary", bytes, "2K", 2048],
  ["vLLM's small letters, decimal", bytes, "2k", 2000],
  ["a space before the unit", bytes, "512 MiB", 512 * 2 ** 20],
  ["a choice", choice, "b", "b"],
];

test.each(ACCEPTED)("%s", (_name, parse, text, expected) => {
  expect(parse(text)).toBe(expected);
});

const REFUSED: readonly [string, ValueParser<unknown>, string, RegExp][] = [
  ["below the range", integer, "0", /expected --n to be an integer in \[1, 10\], got "0"/],
  ["above the range", integer, "11", /\[1, 10\]/],
  ["no integer", integer, "1.5", /an integer/],
  ["exponents", integer, "1e1", /an integer/],
  ["words", integer, "many", /got "many"/],
  ["nothing", integer, "", /got ""/],
  ["an empty number", number, " ", /a number in \[0, 2\]/],
  ["NaN", number, "NaN", /a number/],
  ["infinity", number, "Infinity", /a number/],
  ["a seed over 64 bits", seed, "18446744073709551616", /a 64-bit integer/],
  ["a fractional seed", seed, "1.5", /a 64-bit integer/],
  ["no bytes", bytes, "0", /a positive size such as 8GiB/],
  ["less than one byte", bytes, "0.5", /a positive size/],
  ["negative bytes", bytes, "-1GiB", /a positive size/],
  ["an unknown unit", bytes, "8GiBB", /a positive size/],
  ["a unit alone", bytes, "GiB", /a positive size/],
  ["more bytes than can be counted", bytes, "99999999TiB", /a positive size/],
  ["an unknown choice", choice, "c", /one of a, b, got "c"/],
  ["a choice named like an object's own property", choice, "constructor", /one of a, b/],
];

test.each(REFUSED)("refuses %s", (_name, parse, text, message) => {
  expect(() => parse(text)).toThrow(
    expect.objectContaining({ code: "invalid_option", message: expect.stringMatching(message) }),
  );
});

test("lists collect over repetitions and commas, and have no empty entries", () => {
  const parse = listOf("--names");
  expect(parse("c", parse("a, b", undefined))).toEqual(["a", "b", "c"]);
  expect(() => parse("a,,b", undefined)).toThrow(/expected --names to be a non-empty value/);
});
