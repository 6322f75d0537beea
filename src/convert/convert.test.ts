/**
 * A converted model is the same model: the same tokens with the same log-probabilities, the same ids for the same text.
 * size: one comparison for each kind of model and of file, which share their models
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { completionsOf, expectClose, weightsOnly } from "../../test/helpers/converted.js";
import { fixture, fixturesDir, hasFixture, repositoryRoot } from "../../test/helpers/fixtures.js";
import { writeRandomFolder } from "../../test/helpers/hf-folder.js";
import {
  type ExpectedLogprobs,
  expectLogprobs,
  isReadOnlyFolder,
  MODEL_FOLDERS,
} from "../../test/helpers/hf-models.js";
import { cases, isLongRun, someOf } from "../../test/helpers/long.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { readGguf } from "../formats/gguf/read.js";
import { arr, bool, encodeGguf, f32, f64, i32, i64, nested, str, u64 } from "../formats/gguf/write.js";
import { TOOL_TEMPLATE_NAME } from "../formats/hf/folder.js";
import { openModel } from "../model/open-model.js";
import { createHfTokenizer } from "../text/hf/create-tokenizer.js";
import { loadTextSide } from "../text/text-side.js";
import { createTokenizer } from "../text/tokenizer/create-tokenizer.js";
import { PROBE } from "../text/tokenizer/probes.js";
import { convertModel } from "./convert.js";
import { tokenizerMetadata } from "./gguf/tokenizer.js";
import { tokenizerFiles } from "./hf/tokenizer.js";

const root = mkdtempSync(join(tmpdir(), "millrace-convert-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

const shared = join(fixturesDir(), "models");
const bundled = [fixture("models/stories260k.gguf"), join(repositoryRoot(), "models/mill-base.gguf")];
const mixtures = (["qwen3moe", "llama"] as const).map((architecture) =>
  writeRandomModel(join(root, `${architecture}.gguf`), {
    architecture,
    seed: 5,
    ff: 64,
    experts: { count: 5, active: 2 },
  }),
);
const ggufs = [
  ...bundled,
  ...mixtures.map(({ path }) => path),
  ...(existsSync(shared) ? readdirSync(shared).filter((name) => name.endsWith(".gguf")) : []).map((name) =>
    join(shared, name),
  ),
];

async function textOf(path: string) {
  const { tokenizer, chatTemplate, readSampling } = await loadTextSide(path);
  const ids = [true, false].map((parseSpecial) => tokenizer.encode(PROBE, { addSpecial: true, parseSpecial }));
  const messages = [{ role: "user", content: "Hello  there" }];
  const chat = chatTemplate?.render({ messages, addGenerationPrompt: true });
  return { ids, chat, sampling: readSampling(), stopIds: [...tokenizer.stopIds].sort((a, b) => a - b) };
}

describe("a GGUF file", () => {
  test.each(bundled)("%s becomes a folder, and a file again, that read text alike", async (path) => {
    const [folder, file] = [place(), place(".gguf")];
    await convertModel({ model: path, out: folder, type: undefined });
    await convertModel({ model: folder, out: file, type: undefined });
    const expected = await textOf(path);
    expect(await textOf(folder)).toEqual(expected);
    expect(await textOf(file)).toEqual(expected);
    const pre = (gguf: string) => readGguf(gguf).metadata.string("tokenizer.ggml.pre") ?? "default";
    expect(pre(file)).toBe(pre(path));
    const [original, folderText, fileText] = await Promise.all([path, folder, file].map((each) => loadTextSide(each)));
    const word = fc.constantFrom(" ", "  ", "1", "22", "a", "The", "\n", "'s", ".", "é", "中", "\t", "<|im_end|>");
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (words) => {
        const ids = (text: typeof original) =>
          text!.tokenizer.encode(words.join(""), { addSpecial: true, parseSpecial: true });
        expect([ids(folderText), ids(fileText)]).toEqual([ids(original), ids(original)]);
      }),
      { numRuns: cases(60, 500) },
    );
  });

  test.each(someOf(ggufs, 5))("%s becomes a folder, and a file again, that answer alike", async (path) => {
    const [original, folder, file] = [place(".gguf"), place(), place(".gguf")];
    // Quantised products round activations, unlike products with F32 weights.
    weightsOnly(path, original);
    weightsOnly(original, folder);
    weightsOnly(folder, file);
    const completions = await completionsOf(original);
    // Gemma's norms are stored directly or as their distance from one, which rounds.
    if (openModel(path).config.architecture === "gemma3") expectClose(await completionsOf(file), completions);
    else expect(await completionsOf(file)).toEqual(completions);
    expectClose(await completionsOf(folder), completions);
  });
});

/** recurrent.test.ts covers files with Mamba-2 layers. */
const architectures = MODEL_FOLDERS.filter((name) => !/^(?:granitehybrid|nemotron_h)/.test(name));
/** npm test leaves out the slow ones; a faster one of each kind remains. */
const TOKENIZERS = readdirSync(fixture("hf-tokenizers")).filter(
  (name) => isLongRun || !/^(oddities|metaspace_always|bloom|deepseek3)$/.test(name),
);

describe("a folder", () => {
  test.each(someOf(architectures, 8))("of %s becomes a file, and a folder again, that answer alike", async (name) => {
    const [file, folder] = [place(".gguf"), place()];
    if (name === "gemma3") {
      // The fixture's attention scale differs from the one for its heads' width, and GGUF has no key for it.
      return void expect(() => weightsOnly(fixture(`hf/${name}`), file)).toThrow(/can say attentionScale/);
    }
    if (name === "qwen3moe") {
      // GGUF has no key for the fixture's layer without experts.
      return void expect(() => weightsOnly(fixture(`hf/${name}`), file)).toThrow(/expected experts in every layer/);
    }
    if (name === "glm4_moe_lite") {
      // The fixture's rope pairs the two halves of a head, as no published model of its kind does.
      return void expect(() => weightsOnly(fixture(`hf/${name}`), file)).toThrow(
        /pairs lie side by side, got pairs of/,
      );
    }
    weightsOnly(fixture(`hf/${name}`), file);
    const completions = await completionsOf(fixture(`hf/${name}`));
    expectClose(await completionsOf(file), completions);
    // The fixture's rope has too few frequencies to derive its settings from them.
    if (name === "llama") return;
    if (isReadOnlyFolder(name)) {
      return void expect(() => weightsOnly(file, folder)).toThrow(/of which folders are written/);
    }
    weightsOnly(file, folder);
    expectClose(await completionsOf(folder), completions);
  });

  test.each(
    MODEL_FOLDERS.filter((name) => existsSync(join(fixture(`hf/${name}`), "llama-cpp.json"))),
  )("of %s becomes a file with the log-probabilities that llama.cpp gives it", async (name) => {
    const file = place(".gguf");
    weightsOnly(fixture(`hf/${name}`), file);
    const expected = JSON.parse(readFileSync(fixture(`hf/${name}/llama-cpp.json`), "utf8")) as ExpectedLogprobs;
    const got = await expectLogprobs(file, expected, 0.02);
    const sum = (logprobs: readonly number[]) => logprobs.reduce((total, logprob) => total + logprob, 0);
    expect(Math.abs(sum(got) / sum(expected.logprobs) - 1)).toBeLessThan(0.0005);
  });

  test("'s bounds that a file always has, and its own pattern of layers, are refused, and a folder keeps them", () => {
    const changed = (name: string, changes: object, suffix = ".gguf") => {
      const folder = place();
      cpSync(fixture(`hf/${name}`), folder, { recursive: true });
      const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
      writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, ...changes }));
      return () => weightsOnly(folder, place(suffix));
    };
    expect(changed("gemma2", { attn_logit_softcapping: null })).toThrow(/can say caps \[0,5\], got \[50,5\]/);
    expect(changed("smollm3", { no_rope_layers: [0, 1, 1, 1] })).toThrow(/can say layers/);
    expect(changed("gpt_neox", { hidden_act: "gelu_new" })).toThrow(/can say activation/);
    for (const suffix of ["", ".gguf"]) expect(changed("olmo3", { sliding_window: 256 }, suffix)).not.toThrow();
    expect(changed("smollm3", { no_rope_layers: [0, 1, 1, 1] }, "")).not.toThrow();
    expect(changed("gemma2", { attn_logit_softcapping: null }, "")).not.toThrow();
  });

  test("of seed_oss has llama.cpp's name for its second norm in a file", () => {
    const file = place(".gguf");
    weightsOnly(fixture("hf/seed_oss"), file);
    const { tensors } = readGguf(file);
    const names = ["post_attention_norm", "ffn_norm"].map((part) => `blk.1.${part}.weight`);
    expect(names.map((name) => tensors.has(name))).toEqual([true, false]);
  });

  test("has numbers of the types that transformers asks for", () => {
    const [file, folder] = [place(".gguf"), place()];
    weightsOnly(fixture("hf/gemma2"), file);
    weightsOnly(file, folder);
    const config = readFileSync(join(folder, "config.json"), "utf8");
    expect(config).toContain('"attn_logit_softcapping": 2.0,');
    expect(config).toMatch(/"final_logit_softcapping": 5\.0,?\n/);
    expect(config).toContain('"rope_theta": 10000.0,');
    expect(config).toContain('"hidden_size": 32,');
  });

  test.each(TOKENIZERS)("'s tokenizer, as %s has it, has the same ids in a file", (name) => {
    const folder = fixture(`hf-tokenizers/${name}`);
    const { size, samples } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as {
      readonly size: number;
      readonly samples: readonly { readonly text: string; readonly plain: readonly number[] }[];
    };
    const tokenizer = createHfTokenizer(folder, size);
    const architecture = name === "phi3" ? "phi3" : "llama";
    const convert = () => tokenizerMetadata(folder, tokenizer, architecture);
    if (REFUSED.has(name)) {
      const message = expect.stringContaining("expected a tokenizer.json that");
      return void expect(convert).toThrow(expect.objectContaining({ code: "tokenizer_unsupported", message }));
    }
    const { metadata, notes } = convert();
    const path = place(".gguf");
    writeFileSync(path, encodeGguf({ metadata: { ...metadata, "general.architecture": str(architecture) } }));
    const made = createTokenizer(readGguf(path).metadata);
    const differing = samples.filter(
      ({ text, plain }) => made.encode(text, { addSpecial: false, parseSpecial: true }).join() !== plain.join(),
    );
    if (notes.length === 0) expect(differing.map(({ text }) => text)).toEqual([]);
    else expect([name, notes, differing.length]).toMatchSnapshot();
  });
});

/**
 * llama.cpp has no equal pre-tokenizer and no equal SentencePiece setting. For bloom's fixture it has the published
 * expression, but none that also puts a space before each piece.
 */
const REFUSED = new Set([
  "oddities",
  "metaspace_always",
  "bert",
  "bert_added",
  "bert_cased",
  "bloom",
  "xlm_roberta",
  "unigram_bytes",
]);

test("a folder's template for tools is in the folder that it becomes, and in a file", async () => {
  const [folder, copy, file] = [place(), place(), place(".gguf")];
  await convertModel({ model: fixture("models/stories260k.gguf"), out: folder, type: "F32" });
  writeFileSync(join(folder, "chat_template.jinja"), "plain");
  mkdirSync(dirname(join(folder, TOOL_TEMPLATE_NAME)));
  writeFileSync(join(folder, TOOL_TEMPLATE_NAME), "{{ tools | length }} tools");
  for (const out of [copy, file]) {
    await convertModel({ model: folder, out, type: "F32" });
    const { chatTemplate } = await loadTextSide(out);
    const ask = (tools?: readonly object[]) => chatTemplate?.render({ messages: [], addGenerationPrompt: true, tools });
    expect([ask(), ask([{}])]).toEqual(["plain", "1 tools"]);
  }
});

test.each([
  ["bert", "got an encoder (bert)"],
  ["gemma_embedding", "got an encoder (gemma-embedding)"],
  ["qwen3_rank", "with layers behind its pooling"],
  ["qwen3_answers", "with layers behind its pooling"],
])("a folder of %s is refused, and nothing is left", async (name, message) => {
  const [folder, out] = [mkdtempSync(join(root, "refused-")), "copy.gguf"];
  const asked = { model: fixture(`hf-encoders/${name}`), out: join(folder, out), type: undefined };
  const refusal = { code: "architecture_unsupported", message: expect.stringContaining(message) };
  await expect(convertModel(asked)).rejects.toThrow(expect.objectContaining(refusal));
  expect(readdirSync(folder)).toEqual([]);
});

describe.skipIf(!hasFixture("tokenizers"))("llama.cpp's vocabularies", () => {
  const folder = join(fixturesDir(), "tokenizers");
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".gguf")) : [];

  test.each(someOf(names, 2))("%s gives the expected ids as a tokenizer.json", (name) => {
    const { metadata } = readGguf(join(folder, name));
    const original = createTokenizer(metadata);
    const out = place();
    mkdirSync(out);
    for (const [file, json] of Object.entries(tokenizerFiles(metadata, original))) {
      writeFileSync(join(out, file), JSON.stringify(json));
    }
    const made = createHfTokenizer(out, original.vocabSize);
    const texts = readFileSync(join(folder, `${name}.inp`), "utf8")
      .split("\n__ggml_vocab_test__\n")
      .slice(0, -1);
    for (const text of [...texts, PROBE]) {
      const ids = original.encode(text, { addSpecial: true, parseSpecial: true });
      expect(made.encode(text, { addSpecial: true, parseSpecial: true }), JSON.stringify(text)).toEqual(ids);
      expect(made.decode(ids)).toBe(original.decode(ids));
    }
  });
});

describe("--out", () => {
  const model = fixture("models/stories260k.gguf");
  const left = () => readdirSync(root).filter((name) => name.includes("partial"));
  const refused = { code: "invalid_option" };

  test("is kept where it is a file, a link or a folder with files, and needs a folder around it", async () => {
    const folder = place();
    mkdirSync(folder);
    writeFileSync(join(folder, "mine"), "");
    const file = place(".gguf");
    writeFileSync(file, "mine");
    const link = place();
    symlinkSync("/nowhere", link);
    for (const out of [folder, file, link, join(place(), "deep.gguf")]) {
      await expect(convertModel({ model, out, type: "F32" }), out).rejects.toMatchObject(refused);
    }
    expect([readdirSync(folder), readFileSync(file, "utf8"), left()]).toEqual([["mine"], "mine", []]);
  });

  test("is not replaced by a copy that ends after it appeared, and nothing beside it is touched", async () => {
    for (const suffix of ["", ".gguf"]) {
      const out = place(suffix);
      mkdirSync(`${out}.partial`);
      writeFileSync(join(`${out}.partial`, "mine"), "");
      let hasAppeared = false;
      const appear = () => {
        if (hasAppeared) return;
        hasAppeared = true;
        if (suffix === "") mkdirSync(out);
        writeFileSync(suffix === "" ? join(out, "mine") : out, "mine");
      };
      await expect(convertModel({ model, out, type: "F32" }, appear)).rejects.toMatchObject(refused);
      expect(readFileSync(suffix === "" ? join(out, "mine") : out, "utf8")).toBe("mine");
      expect(readdirSync(`${out}.partial`)).toEqual(["mine"]);
      rmSync(`${out}.partial`, { recursive: true });
    }
    expect(left()).toEqual([]);
  });

  test("is not made, and nothing is left, after a signal", async () => {
    for (const suffix of ["", ".gguf"]) {
      const [out, end] = [place(suffix), new AbortController()];
      const onWritten = () => end.abort(new Error("told to end"));
      const converting = convertModel({ model, out, type: "F32" }, onWritten, undefined, end.signal);
      await expect(converting).rejects.toThrow("told to end");
      expect([existsSync(out), left()]).toEqual([false, []]);
    }
  });

  test("of two conversions at once is one's, whole", async () => {
    const out = place();
    const attempts = [1, 2, 3].map(() => convertModel({ model, out, type: "F32" }));
    const results = await Promise.allSettled(attempts);
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const result of results) if (result.status === "rejected") expect(result.reason).toMatchObject(refused);
    expect(openModel(out).config.vocabSize).toBe(512);
  });

  test("may be an empty folder, with a slash at its end", async () => {
    const out = place();
    mkdirSync(out);
    await convertModel({ model, out: `${out}/`, type: "F32" });
    expect(readdirSync(out)).toContain("config.json");
  });
});

test.each([
  ["qwen2", [], [282, 280], { padding: 280, eot: 282 }],
  ["llama3", ["<|end_of_text|>", "<|eom_id|>"], [461, 462, 463], { eot: 461, eom: 463 }],
  // No reader knows the second text.
  ["smollm", ["<stop>"], [462], { eot: 461, eom: 462 }],
])("the stop tokens of a folder like %s have their keys in a file", (name, texts, stopIds, expected) => {
  const folder = place();
  cpSync(fixture(`hf-tokenizers/${name}`), folder, { recursive: true });
  const path = join(folder, "tokenizer.json");
  const json = JSON.parse(readFileSync(path, "utf8")) as { added_tokens: object[] };
  for (const [i, content] of texts.entries()) json.added_tokens.push({ id: 462 + i, content, special: true });
  writeFileSync(path, JSON.stringify(json));
  writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id: stopIds }));
  const tokenizer = createHfTokenizer(folder, name === "qwen2" ? 285 : 464);
  const file = place(".gguf");
  const { metadata } = tokenizerMetadata(folder, tokenizer, "llama");
  writeFileSync(file, encodeGguf({ metadata: { ...metadata, "general.architecture": str("llama") } }));
  const written = readGguf(file).metadata;
  const keys = (["padding", "eot", "eom"] as const).map((key) => written.number(`tokenizer.ggml.${key}_token_id`));
  const wanted: { padding?: number; eot?: number; eom?: number } = expected;
  expect(keys).toEqual([wanted.padding, wanted.eot, wanted.eom]);
  expect(createTokenizer(written).stopIds).toEqual(tokenizer.stopIds);
});

test("a file's further keys about text keep their values, and lists their types", async () => {
  const lists = {
    u8: [0, 255],
    i8: [-128, 127],
    i16: [-300],
    u32: [4_294_967_295],
    f64: [0.1],
    i64: [-5n],
    u64: [2n ** 63n],
    bool: [true, false],
    string: [] as string[],
  } as const;
  const values = { a: i32(-1), b: f32(0.5), c: f64(0.1), d: u64(2n ** 40n), e: i64(-(2n ** 40n)), f: bool(false) };
  const entries = Object.entries(lists).map(([type, list]) => [type, arr(type as keyof typeof lists, list)] as const);
  const metadata = Object.fromEntries(
    [...Object.entries(values), ...entries].map(([key, value]) => [`tokenizer.own.${key}`, value] as const),
  );
  const [file, copy] = [place(".gguf"), place(".gguf")];
  writeRandomModel(file, { architecture: "llama", seed: 1, metadata });
  await convertModel({ model: file, out: copy, type: undefined });
  const own = (path: string) => Object.keys(metadata).map((key) => readGguf(path).metadata.get(key));
  expect(own(copy)).toEqual(own(file));
  writeRandomModel(file, { architecture: "llama", seed: 1, metadata: { "tokenizer.own": nested([arr("u8", [1])]) } });
  await expect(convertModel({ model: file, out: place(".gguf"), type: undefined })).rejects.toThrow("tokenizer.own");
});

/** A Mistral with a sliding window, for which the file gets a note, and with llama2's tokenizer. */
function mistralFolder(change: (tokenizer: { model: { merges: unknown[] } }) => void): string {
  const folder = writeRandomFolder(place());
  const rewrite = (name: string, source: string, edit: (json: never) => void) => {
    const json = JSON.parse(readFileSync(source, "utf8")) as never;
    edit(json);
    writeFileSync(join(folder, name), JSON.stringify(json));
  };
  rewrite("config.json", join(folder, "config.json"), (json) =>
    Object.assign(json, { architectures: ["MistralForCausalLM"], model_type: "mistral", sliding_window: 64 }),
  );
  for (const [name, edit] of [["tokenizer.json", change] as const, ["tokenizer_config.json", () => {}] as const]) {
    rewrite(name, fixture(`hf-tokenizers/llama2/${name}`), edit);
  }
  writeFileSync(join(folder, "generation_config.json"), "{}");
  return folder;
}

test("a note on a window does not excuse other tokens", async () => {
  const notes: string[] = [];
  const convert = (model: string) =>
    convertModel({ model, out: place(".gguf"), type: undefined }, undefined, (text) => notes.push(text));
  await convert(mistralFolder(() => {}));
  expect(notes).toEqual(["llama.cpp does not know this architecture: the file is for millrace"]);
  // A token that no merge produces: SentencePiece joins its characters anyway.
  const broken = mistralFolder(({ model }) => model.merges.splice(0, 20));
  await expect(convert(broken)).rejects.toMatchObject({ code: "tokenizer_unsupported" });
});

test("a pooling that a folder cannot say is refused, and a file keeps it", async () => {
  const pooled = place(".gguf");
  writeRandomModel(pooled, { architecture: "qwen3", seed: 1, poolingType: 1 });
  const [folder, file] = [place(), place(".gguf")];
  expect(() => weightsOnly(pooled, folder)).toThrow(
    /expected a model without a pooling of its own, got the pooling mean/,
  );
  weightsOnly(pooled, file);
  expect(openModel(file).config.pooling).toBe("mean");
});

test.each<[string, (path: string) => void]>([
  ["no JSON", (path) => writeFileSync(path, "\0")],
  ["a device without an end", (path) => symlinkSync("/dev/zero", path)],
  ["a folder", (path) => mkdirSync(path)],
])("a text file that is %s is refused", async (_, write) => {
  const folder = place();
  await convertModel({ model: fixture("models/stories260k.gguf"), out: folder, type: "F32" });
  write(join(folder, "special_tokens_map.json"));
  await expect(convertModel({ model: folder, out: place(), type: "F32" })).rejects.toMatchObject({
    code: expect.stringMatching(/^(file_unreadable|model_config)$/),
  });
});
