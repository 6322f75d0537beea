import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { cases } from "../../../test/helpers/long.js";
import { packageRoot } from "../../core/package-root.js";
import { configJsonSchema, type JsonSchema } from "./key-paths.js";
import { checkConfig, readConfig } from "./read-config.js";
import type { FleetConfig } from "./schema.js";

const MODELS = "models:\n  - { name: m, model: m.gguf }\n";

function valid(text: string, environment: NodeJS.ProcessEnv = {}): FleetConfig {
  const { config, problems } = checkConfig(text, environment);
  if (config === undefined) expect.fail(JSON.stringify(problems));
  return config;
}

/** "line:column path code: message | hint" of each problem. */
function wrong(text: string, environment: NodeJS.ProcessEnv = {}): string[] {
  return checkConfig(text, environment).problems.map(
    ({ line, column, path, code, message, hint }) => `${line}:${column} ${path} ${code}: ${message} | ${hint}`,
  );
}

describe("defaults", () => {
  test("one model is enough", () => {
    const config = valid(MODELS);
    expect(config).toMatchObject({ host: "127.0.0.1", port: 8000, apiKeys: [] });
    expect(config.timeouts).toMatchObject({
      connect: 5000,
      firstToken: 600_000,
      idle: 120_000,
      wait: 120_000,
      drain: 300_000,
    });
    expect(config.models[0]).toMatchObject({ name: "m", engine: "millrace", args: [], attach: [], options: {} });
  });

  test("keys become camelCase, except user-defined names", () => {
    const config = valid(
      `${MODELS}    options: { max-num-seqs: 4, kv-cache-memory-bytes: 1GiB, speculative-config: { num-x: 1 } }\n`.replace(
        "  - { name: m, model: m.gguf }",
        "  - name: m\n    model: m.gguf\n    env: { A-B: x }",
      ),
    );
    expect(config.models[0]?.options).toEqual({
      maxNumSeqs: 4,
      kvCacheMemoryBytes: 2 ** 30,
      speculativeConfig: { "num-x": 1 },
    });
    expect(Object.keys(config.models[0]?.env ?? {})).toEqual(["A-B"]);
  });
});

describe("mistakes", () => {
  const CASES: readonly [what: string, text: string, problems: readonly string[]][] = [
    [
      "a misspelt key",
      `prot: 1\n${MODELS}`,
      ['1:1 prot config_unknown_key: expected only known keys, got "prot" | write port'],
    ],
    [
      "a key in the wrong section",
      "models:\n  - name: m\n    model: a\n    max_num_seqs: 3\n    connect: 5s\n",
      [
        '4:5 models[0].max_num_seqs config_unknown_key: expected only known keys in models[0], got "max_num_seqs"',
        '5:5 models[0].connect config_unknown_key: expected only known keys in models[0], got "connect" | it belongs under timeouts',
      ],
    ],
    [
      "an engine's own flag among the options",
      "models:\n  - name: m\n    model: a\n    options: {chat-template: x}\n",
      [
        'in models[0].options, got "chat-template" | write args: [--chat-template, …] for a flag of the engine\'s own; known here: ',
      ],
    ],
    [
      "a camelCase key",
      `timeouts:\n  firstToken: 5s\n${MODELS}`,
      [
        '2:3 timeouts.firstToken config_unknown_key: expected only known keys in timeouts, got "firstToken" | write first-token',
      ],
    ],
    [
      "a limit of no time",
      "timeouts:\n  first-token: 0s\nmodels: [{name: m, model: m.gguf}]",
      [
        '2:3 timeouts.first-token config_value: expected timeouts.first-token to be a duration above 0 and of at most 24 days such as 250ms, 5s, 2m, 1h, got "0s" | it means: time allowed from sending a request to the first byte of its answer',
      ],
    ],
    [
      "a duration without unit",
      `timeouts:\n  idle: 60\n${MODELS}`,
      [
        "2:3 timeouts.idle config_value: expected timeouts.idle to be a duration above 0 and of at most 24 days such as 250ms, 5s, 2m, 1h, got 60 | put the value in quotes, with its unit where it has one",
      ],
    ],
    [
      "a port out of range",
      `port: 70000\n${MODELS}`,
      [
        "1:1 port config_value: expected port to be an integer in [0, 65535], got 70000 | it means: port to listen on; 0: any free port",
      ],
    ],
    [
      "an unknown engine",
      "models: [{ name: m, model: a, engine: vlm }]",
      ["1:31 models[0].engine config_value: expected models[0].engine to be one of millrace, vllm"],
    ],
    [
      "a missing name",
      "models:\n  - model: a\n",
      [
        "2:5 models[0].name config_value: expected models[0].name to be a name without spaces, got nothing | add name: name that clients send as `model`",
      ],
    ],
    [
      "no models",
      "port: 1\n",
      ["1:1 models config_value: expected models to be a list, got nothing | add models: models to serve"],
    ],
    ["an empty file", "", ["1:1 models config_value: expected models to be a list, got nothing"]],
    ["a list", "- a\n", ["1:1  config_value: expected the file to be a mapping, got a list"]],
    [
      "webhooks of another form",
      "alerts: { webhook: [{ url: nope }, { url: 'env:NONE', formt: slack }] }\nmodels: [{ name: m, model: a }]\n",
      [
        '1:55 alerts.webhook[1].formt config_unknown_key: expected only known keys in alerts.webhook[1], got "formt" | write format',
        "1:23 alerts.webhook[0].url config_value: expected alerts.webhook[0].url to be the URL of a web server, or env:NAME such as env:MILLRACE_KEY, got another value",
        '1:38 alerts.webhook[1].url config_secret: expected the environment variable "NONE" for alerts.webhook[1].url to hold a key without spaces, got none or one with spaces',
      ],
    ],
    [
      "a variable that is not set, where a list may be",
      "alerts: { webhook: 'env:NONE' }\nmodels: [{ name: m, model: a }]\n",
      [
        '1:11 alerts.webhook config_secret: expected the environment variable "NONE" for alerts.webhook to hold a key without spaces, got none or one with spaces',
      ],
    ],
    ["no models", "models: []\n", ["1:1 models config_value: expected at least 1 in models, got an empty list"]],
    [
      "broken brackets",
      "models: [\n",
      ["2:1  config_syntax: expected every [ and { to be closed, and its lines to be indented, got an open one"],
    ],
    ["a tab", "models:\n\t- a\n", ["2:1  config_syntax: expected spaces before keys, no tabs, got tab as indent"]],
    ["a key twice", `port: 1\nport: 2\n${MODELS}`, ["2:1  config_syntax: expected each key once, got duplicate key"]],
    [
      "a half range",
      "models:\n  - name: m\n    model: a\n    instances: { mim: 1, max: 2 }\n",
      [
        'models[0].instances.mim config_unknown_key: expected only known keys in models[0].instances, got "mim" | write min',
        "models[0].instances.min config_value: expected models[0].instances.min to be an integer in [0, 256], got nothing",
      ],
    ],
    [
      "a fraction of instances",
      "models: [{ name: m, model: a, instances: 1.5 }]",
      ["expected models[0].instances to be a number, auto, or a range such as {min: 1, max: 4}, got 1.5"],
    ],
    [
      "a range upside down",
      "models: [{ name: m, model: a, instances: { min: 3, max: 2 } }]",
      ["models[0].instances config_conflict: expected max of at least min 3, got 2 | swap the two"],
    ],
    [
      "a name twice",
      "models:\n  - { name: a, model: x }\n  - { name: b, model: y, aliases: [a] }\n",
      [
        '3:36 models[1].aliases[0] config_conflict: expected each name once, got "a" for models[0] too | give it another name',
      ],
    ],
    [
      "a region without a rank",
      'regions: [us]\nmodels: [{ name: m, engine: openai, attach: [{ url: "http://h:1", region: eu }] }]',
      ['models[0].attach[0].region config_conflict: expected one of `regions`, got "eu"'],
    ],
    [
      "quality without a ledger",
      "quality: { sample: 2% }\nmodels: [{ name: m, model: a }]",
      ["quality config_conflict: expected ledger beside quality, got none"],
    ],
    [
      "a share of nothing",
      "ledger: {}\nquality: { sample: 0% }\nmodels: [{ name: m, model: a }]",
      ["expected quality.sample to be a share of requests above 0 %"],
    ],
    [
      "an operator's key of somebody else",
      "admin-key: sk-1\napi-keys: [{ tenant: t, key: sk-2 }]\noperators: [{ name: a, role: viewer, key: sk-1 }, { name: b, role: admin, key: sk-2 }]\nmodels: [{ name: m, model: m.gguf }]",
      [
        "api-keys[0].key config_conflict: expected a key other than that of b, got the same",
        "operators[0].key config_conflict: expected each key once, got one of another operator",
      ],
    ],
    [
      "operators of one name",
      "operators: [{ name: a, role: viewer, key: sk-1 }, { name: a, role: admin, key: sk-2 }, { name: admin-key, role: viewer, key: sk-3 }]\nmodels: [{ name: m, model: m.gguf }]",
      [
        "operators[1].name config_conflict: expected each name once, got a again",
        "operators[2].name config_conflict: expected each name once, got admin-key again",
      ],
    ],
    [
      "managed keys that nobody may make",
      "operators: [{ name: a, role: operator, key: sk-1 }]\nmanaged-keys: true\nmodels: [{ name: m, model: m.gguf }]",
      ["managed-keys config_conflict: expected admin-key or an operator with the role admin beside managed-keys"],
    ],
    ["nothing to load", "models: [{ name: m }]", ["models[0] config_conflict: expected model or attach"]],
    [
      "auto for another engine",
      "models: [{ name: m, model: a, engine: tgi, instances: auto }]",
      ["expected a number for tgi, got auto"],
    ],
    [
      "a user in a URL",
      'models: [{ name: m, engine: openai, attach: [{ url: "http://u:p@h/v1" }] }]',
      [
        'models[0].attach[0].url config_value: expected models[0].attach[0].url to be the URL of a server, without user and query such as http://127.0.0.1:8101, https://openrouter.ai/api/v1, got "http://…@h/v1"',
      ],
    ],
    [
      "too few cores",
      "models: [{ name: m, model: a, cores: 0-1, cores-per-instance: 3 }]",
      ["expected at most the 2 CPUs of cores, got 3"],
    ],
  ];

  test.each(CASES)("%s", (_, text, problems) => {
    const got = wrong(text);
    expect(got).toHaveLength(problems.length);
    for (const [index, expected] of problems.entries()) expect(got[index]).toContain(expected);
  });

  test("anchors that contain each other are refused, not expanded", () => {
    const bomb = ["a: &a [x]", ...Array.from({ length: 12 }, (_, i) => `b${i}: &b${i} [${"*a, ".repeat(20)}]`)].join(
      "\n",
    );
    expect(wrong(bomb).length).toBeGreaterThan(0);
  });
});

describe("secrets", () => {
  const TEXT = `admin-key: env:ADMIN\napi-keys: [{ tenant: t, key: sk-plain }]\n${MODELS}`;

  test("are read from the environment and never shown", () => {
    const config = valid(TEXT, { ADMIN: "sk-secret" });
    expect(config.adminKey?.reveal()).toBe("sk-secret");
    expect(config.apiKeys[0]?.key.reveal()).toBe("sk-plain");
    expect(`${inspect(config, { depth: 9 })}${JSON.stringify(config)}${String(config.adminKey)}`).not.toMatch(/sk-/);
  });

  test("that are missing are reported with their variable", () => {
    expect(wrong(TEXT)[0]).toContain('1:1 admin-key config_secret: expected the environment variable "ADMIN"');
  });

  test.each([
    "api-keys: [sk-oops]",
    "api-keys: sk-oops",
    "api-keys: [{ tenant: t, key: [sk-oops] }]",
    'admin-key: { key: "sk-oops" }',
    'admin-key: "sk-oops',
    "admin-key: sk-oops: sk-oops",
    "api-keys: [{ tenant: t, key: sk-oops }, { tenant: u, key: sk-oops }]",
    "admin-key: sk-oops\napi-keys: [{ tenant: t, key: sk-oops }]",
    "admin-key: 'sk-oops a'",
    "operators: [{ name: a, role: viewer, key: [sk-oops] }]",
    "operators: [{ name: a, role: viewer, key: sk-oops }, { name: b, role: viewer, key: sk-oops }]",
    "admin-key: !sk-oops x",
  ])("are left out of the error about %s", (text) => {
    const got = wrong(`${text}\n${MODELS}`);
    expect(got.length).toBeGreaterThan(0);
    expect(got.join()).not.toContain("sk-oops");
  });
});

/** Every key with its description and default. */
function keyTable(): string {
  const rows: string[] = [];
  const visit = ({ properties = {} }: JsonSchema, at: string): void => {
    for (const [key, schema] of Object.entries(properties)) {
      const inner = schema.items ?? schema;
      const path = `${at}${key}${schema.items?.properties === undefined ? "" : "[]"}`;
      const standard = (schema as { default?: unknown }).default;
      const isSection = inner.properties !== undefined;
      const shown = isSection || standard === undefined ? "" : `\`${JSON.stringify(standard).replaceAll('"', "")}\``;
      rows.push(`| \`${path}\` | ${schema.description} | ${shown} |`);
      visit(inner, `${path}.`);
      // The items of a list have one of these forms.
      for (const { items = {} } of schema.anyOf ?? []) visit(items, `${path}[].`);
    }
  };
  visit(configJsonSchema(), "");
  return ["| Key | What it is | Default |", "| --- | --- | --- |", ...rows].join("\n");
}

describe("files of the documentation", () => {
  const read = (name: string): string => readFileSync(join(packageRoot(), "docs", name), "utf8");
  const environment = Object.fromEntries(
    ["SEARCH", "SUPPORT", "ADMIN", "LARGE"].map((name) => [`${name}_KEY`, `key-of-${name}`]),
  );

  test("the example is valid, both as text and as a file", () => {
    const file = join(packageRoot(), "docs/reference/millrace.example.yaml");
    expect(readConfig(file, { ...environment, HF_TOKEN: "t" }).models.map(({ name }) => name)).toHaveLength(4);
    expect(() => readConfig(file, {})).toThrow(/millrace\.example\.yaml:9:.*SEARCH_KEY.*and 5 more/s);
  });

  test("a named pipe is no configuration, and no writer is waited for", () => {
    const pipe = join(mkdtempSync(join(tmpdir(), "millrace-config-")), "millrace.yaml");
    execFileSync("mkfifo", [pipe]);
    const message = `expected a configuration file at ${pipe}, got something that is not a regular file`;
    expect(() => readConfig(pipe, {})).toThrow(expect.objectContaining({ code: "file_unreadable", message }));
    rmSync(dirname(pipe), { recursive: true });
  });

  test("the published schema is the one in use (UPDATE_DOCS=1 writes it)", async () => {
    const file = join(packageRoot(), "docs/reference/millrace.schema.json");
    const text = `${JSON.stringify(configJsonSchema(), null, 2)}\n`;
    if (process.env.UPDATE_DOCS === "1") (await import("node:fs")).writeFileSync(file, text);
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  test("docs/reference/configuration.md lists every key (UPDATE_DOCS=1 writes them)", async () => {
    const file = join(packageRoot(), "docs/reference/configuration.md");
    const marked = `<!-- keys -->\n${keyTable()}\n<!-- /keys -->`;
    const text = readFileSync(file, "utf8");
    const written = text.replace(/<!-- keys -->[\s\S]*<!-- \/keys -->/, () => marked);
    if (process.env.UPDATE_DOCS === "1") (await import("node:fs")).writeFileSync(file, written);
    expect(readFileSync(file, "utf8")).toBe(written);
  });

  test("other validators agree with the schema on the example", async () => {
    const { Ajv2020 } = await import("ajv/dist/2020.js");
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(configJsonSchema());
    expect(validate(parse(read("reference/millrace.example.yaml"))), JSON.stringify(validate.errors)).toBe(true);
    expect(validate({ models: [{ name: "m", modle: "a" }] })).toBe(false);
  });
});

describe("no input crashes it", () => {
  const names: string[] = [];
  const collect = ({ properties = {}, items, anyOf = [] }: JsonSchema): void => {
    names.push(...Object.keys(properties));
    for (const each of [...Object.values(properties), ...(items === undefined ? [] : [items]), ...anyOf]) collect(each);
  };
  collect(configJsonSchema());
  const key = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...names) },
    fc.string({ maxLength: 12 }),
    fc.constant("__proto__"),
  );
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      fc.oneof(
        fc.integer(),
        fc.double(),
        fc.boolean(),
        fc.constant(null),
        fc.constantFrom("5s", "8GiB", "auto", "env:X", "a b", "0-3", "3-1"),
        fc.string(),
      ),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 5 }),
    ),
  }));

  const holds = (text: string): void => {
    const { config, problems } = checkConfig(text, {});
    expect(problems.length > 0).toBe(config === undefined);
    for (const { line, column, message, hint } of problems) {
      expect(line * column).toBeGreaterThan(0);
      expect(message).toMatch(/^expected .*got /s);
      expect(hint).not.toBe("");
    }
  };

  test("structures with known keys in the wrong places", () => {
    fc.assert(
      fc.property(fc.dictionary(key, value, { maxKeys: 6 }), (root) => holds(JSON.stringify(root))),
      { numRuns: cases(30, 100) },
    );
  });

  test("any text, and the example with a cut and an insertion", () => {
    const example = readFileSync(join(packageRoot(), "docs/reference/millrace.example.yaml"), "utf8");
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 80 }), holds), { numRuns: cases(20, 75) });
    const place = fc.nat(example.length);
    fc.assert(
      fc.property(place, fc.nat(40), fc.string({ maxLength: 6 }), (at, length, inserted) =>
        holds(example.slice(0, at) + inserted + example.slice(at + length)),
      ),
      { numRuns: cases(20, 75) },
    );
  });
});
