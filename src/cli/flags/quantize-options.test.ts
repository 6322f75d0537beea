import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { METHODS } from "../../compress/storage.js";
import { addQuantizeOptions, askedMethods, assertTogether, type QuantizeFlags } from "./quantize-options.js";

function parsed(...words: readonly string[]) {
  const command = addQuantizeOptions(new Command("quantize").exitOverride());
  command.parse(words, { from: "user" });
  return { command, flags: command.opts<QuantizeFlags>() };
}

function asked(out: string, ...words: readonly string[]) {
  return askedMethods(parsed("--out", out, ...words).flags, out, METHODS);
}

describe("methods of millrace quantize", () => {
  test("one by default, those named, all of auto that fit the output, none beside a size", () => {
    expect(asked("a.gguf")).toEqual({ methods: ["Q4_K_M"], isAuto: false, smallest: undefined });
    const two = asked("a.gguf", "--method", "q5_0,q8_0", "--evals", "q.jsonl");
    expect(two.methods).toEqual(["Q5_0", "Q8_0"]);
    const folders = asked("folder", "--method", "auto:fp8", "--evals", "q.jsonl");
    expect(folders).toMatchObject({ isAuto: true, smallest: "FP8" });
    expect(folders.methods).toEqual(expect.arrayContaining(["FP8", "INT8", "INT4_128"]));
    expect(folders.methods).not.toContain("Q4_0");
    const groups = asked("folder", "--method", "auto", "--evals", "q.jsonl", "--layout", "awq").methods;
    expect(groups.every((method) => method.startsWith("INT4"))).toBe(true);
    expect(asked("a.gguf", "--max-size", "1GiB").methods).toEqual([]);
  });

  test.each([
    ["a.gguf", ["--max-size", "1GiB", "--method", "q4_0"], "--method to be absent beside --max-size"],
    ["a.gguf", ["--max-size", "1GiB", "--layout", "awq"], "--layout to be compressed-tensors beside --max-size"],
    ["folder", ["--max-size", "1GiB"], "--out to be a name that ends in .gguf"],
    ["a.gguf", ["--method", "q4_0,int8", "--evals", "q"], "of types of files, or of types of folders"],
    ["folder", ["--method", "int8", "--layout", "gptq"], "compressed-tensors for methods other than INT4"],
    ["a.gguf", ["--method", "int8"], "--out to be a folder for INT8"],
    ["a.gguf", ["--method", "q4_0,q5_0"], "one type where no --evals chooses"],
    ["a.gguf", ["--method", "auto"], "--evals to be given beside --method auto"],
  ])("%s with %j is refused", (out, words, message) => {
    expect(() => asked(out, ...words)).toThrow(message);
  });
});

test.each([
  [["--max-size", "1GiB"], "--calibrate to be given beside --max-size"],
  [["--rounding", "gptq"], "--calibrate to be given beside --rounding gptq"],
  [["--save-imatrix", "i.gguf"], "--calibrate to be given beside --save-imatrix"],
  [["--scaling", "awq"], "--calibrate to be given beside --scaling awq"],
  [["--imatrix", "i.gguf", "--save-imatrix", "j.gguf"], "--save-imatrix to be absent beside --imatrix"],
  [["--calibrate", "c", "--scaling", "smoothquant"], "awq or none for Q4_0"],
  [["--count", "5"], "--evals to be given beside --count"],
])("options %j without their other half are refused", (words, message) => {
  const { flags, command } = parsed("--out", "a.gguf", ...words);
  expect(() => assertTogether(flags, ["Q4_0"], command)).toThrow(message);
});

test("scales of an importance matrix need no texts", () => {
  const { flags, command } = parsed("--out", "a.gguf", "--imatrix", "i.gguf", "--scaling", "awq");
  expect(() => assertTogether(flags, ["Q4_0"], command)).not.toThrow();
});
