import { describe, expect, it } from "vitest";
import { someOf } from "../../test/helpers/long.js";
import type { Check } from "./check.js";
import { hasPython, whyUnconfined } from "./sandbox/run-code.js";
import { scoreAnswer } from "./score-answer.js";

const hasWalls = (await whyUnconfined("typescript")) === undefined;

type Case = readonly [what: string, expected: string, answer: string, score: number, exact: boolean];

/** Endless code is ended by its CPU time, which passes slowly on a busy machine. */
const TIMEOUT_MS = 300_000;

/** Code that computes until a limit ends it: in npm test one of each language. */
const isEndless = ([what]: Case): boolean => /^(loops|fills|falls|writes without)/.test(what);

function scores(name: string, check: Check, cases: readonly Case[]): void {
  const taken = [...cases.filter((each) => !isEndless(each)), ...someOf(cases.filter(isEndless), 1)];
  describe.concurrent(name, () => {
    it.each(taken)(
      "%s",
      async (_what, expected, answer, score, exact) => {
        const got = await scoreAnswer(check, expected, answer);
        expect({ score: Number(got.score.toFixed(3)), exact: got.exact }).toEqual({ score, exact });
      },
      TIMEOUT_MS,
    );
  });
}

scores("includes", { kind: "includes", texts: ["Paris", "paris"] }, [
  ["one of them", "Paris", "It is paris.", 1, true],
  ["none of them", "Paris", "It is Rome.", 0, false],
]);

scores("regex", { kind: "regex", pattern: "^answer: (a+)+$", flags: "im" }, [
  ["a part that matches", "", "I think.\nAnswer: aaa", 1, true],
  ["no match", "", "Answer: b", 0, false],
  ["a match that would take years ends", "", `answer: ${"a".repeat(60)}b`, 0, false],
]);

scores("exact", { kind: "exact" }, [
  ["right", "a\n  b", "a\n  b", 1, true],
  ["white space at the ends of lines and of the text", "a\n  b", "a  \n  b\n\n", 1, true],
  ["a code fence is right with a reservation", "a\n  b", "```ts\na\n  b\n```", 1, false],
  ["another indent", "a\n  b", "a\n b", 0, false],
  ["a remark before", "a", "Here you are: a", 0, false],
  ["nothing", "a", "", 0, false],
]);

scores("phrase", { kind: "phrase" }, [
  ["right", "in Oslo", "in Oslo", 1, true],
  ["case, quotes and a mark aside", "in Oslo", '"In  oslo."', 1, true],
  ["more than asked for", "in Oslo", "It is in Oslo.", 0, false],
  ["nothing", "in Oslo", " ", 0, false],
]);

scores("number", { kind: "number", value: -12.5 }, [
  ["right, after steps", "", "5 - 17.5 = -12.5", 1, true],
  ["right, with a unit", "", "It is -12.5 euros.", 1, true],
  ["with a typographer's minus", "", "That makes \u221212.5", 1, true],
  ["with an exponent", "", "-1.25e1", 1, true],
  ["nearly right", "", "-12.6", 0, false],
  ["no number", "", "minus twelve", 0, false],
]);
scores("number, whole", { kind: "number", value: 7 }, [
  ["a sign between is no minus", "", "10-3=10-7", 1, true],
  ["a full stop ends the number", "", "The answer is 7.", 1, true],
]);
scores("number, below one", { kind: "number", value: 0.5 }, [
  ["without a zero before the point", "", "about .5", 1, true],
]);
scores("number, of thousands", { kind: "number", value: 1_234_567 }, [
  ["commas between thousands", "", "348 × 4 is less than 1,234,567.", 1, true],
  ["commas of a list", "", "567, 1, 234", 0, false],
  ["no commas", "", "1234567", 1, true],
]);

const json = '{"name": "Ada", "age": 31, "tags": ["a", "b"], "city": null}';
scores("json", { kind: "json" }, [
  ["right", json, json, 1, true],
  [
    "right in another order and shape",
    json,
    '{ "city": null,\n "tags": ["a","b"], "age": 31.0, "name": "Ada" }',
    1,
    true,
  ],
  ["right in a fence", json, `\`\`\`json\n${json}\n\`\`\``, 1, true],
  ["a wrong value", json, json.replace("31", "32"), 0.75, false],
  ["a number as a string", json, json.replace("31", '"31"'), 0.75, false],
  ["a list in another order", json, json.replace('"a", "b"', '"b", "a"'), 0.75, false],
  ["a missing field", json, '{"name": "Ada", "age": 31, "tags": ["a", "b"]}', 0.75, false],
  ["a field too many", json, json.replace("}", ', "job": 1}'), 0.8, false],
  ["broken off", json, json.slice(0, -3), 0, false],
  ["text around it", json, `Here: ${json}`, 0, false],
  ["nothing", json, "", 0, false],
  [
    "rows count field by field",
    '[{"a": 1, "b": 2}, {"a": 3, "b": 4}]',
    '[{"a": 1, "b": 2}, {"a": 3, "b": 5}]',
    0.75,
    false,
  ],
]);

scores("list", { kind: "list", numItems: 3 }, [
  ["a sentence", "", "Apples, pears and plums.", 1, true],
  ["a sentence on a line of its own", "", "Apples, pears and plums.\n", 1, true],
  ["numbered lines", "", "1. apples\n2. pears\n3. plums", 1, true],
  ["bullets", "", "- apples\n- pears\n- plums", 1, true],
  ["an item twice", "", "Apples, pears and apples.", 0, false],
  ["one too many", "", "1. a\n2. b\n3. c\n4. d", 0, false],
  ["nothing", "", "", 0, false],
]);

scores("list of known items", { kind: "list", numItems: 2, items: ["Apples", "pears", "plums"] }, [
  ["of them", "", "Pears and apples.", 1, true],
  ["another thing", "", "Pears and stones.", 0, false],
]);

const long = "The fox went down to the river again.";
scores("mentions", { kind: "mentions", words: ["fox", "river"] }, [
  ["right", "", "A fox came to the river.", 1, true],
  ["ends with a quote", "", 'The fox said, "What a river!"', 1, true],
  ["a word missing", "", "A fox came home.", 0.5, false],
  ["a word only within another", "", "A fox came to the riverbank.", 0.5, false],
  ["broken off", "", "A fox came to the river and", 1, false],
  ["repeats itself", "", `${long} It was late. ${long}`, 1, false],
  ["nothing", "", "  ", 0, false],
]);

const summary = "Bird-db was down for 9 minutes; Ada fixed it.";
scores("overlap", { kind: "overlap", facts: ["bird-db", "9", "Ada"] }, [
  ["right", summary, summary, 1, true],
  ["a fact missing", summary, "Bird-db was down for 9 minutes; Otto fixed it.", 0.722, false],
  ["a fact only within a number", summary, "Bird-db was down for 4.9 or 9,000 minutes; Ada fixed it.", 0.652, false],
  ["no facts asked for, nothing said", summary, " ", 0, false],
  ["all of a long text", summary, `${summary} ${"And so on it went. ".repeat(9)}`, 0.643, false],
  ["other words", summary, "Ada: Bird-db, 9", 0.583, true],
  ["nothing", summary, "", 0, false],
]);

const calls = [
  { args: [1, 2], expect: 3 },
  { args: [5, -5], expect: 0 },
];
const typescript: Check = { kind: "code", language: "typescript", name: "add", calls };
const tsAnswer = "function add(a: number, b: number): number {\n  return a + b;\n}";
describe.skipIf(!hasWalls)("with a jail for generated code", () => {
  scores("TypeScript", typescript, [
    ["right", "", tsAnswer, 1, true],
    ["right in a fence", "", `\`\`\`ts\n${tsAnswer}\n\`\`\``, 1, true],
    ["right as an arrow function", "", "const add = (a: number, b: number): number => a + b;", 1, true],
    ["right for one call only", "", tsAnswer.replace("+", "|"), 0.5, false],
    ["another name", "", tsAnswer.replace("add", "sum"), 0, false],
    ["broken off", "", tsAnswer.slice(0, -3), 0, false],
    ["no code", "", "I cannot do that.", 0, false],
    ["nothing", "", "", 0, false],
    ["throws", "", "function add() { throw { get message() { while (true) {} } }; }", 0, false],
    ["loops without end", "", "function add() { while (true) {} }", 0, false],
    ["loops while it is loaded", "", "while (true) {}", 0, false],
    [
      "loops in a promise",
      "",
      "Promise.resolve().then(() => { while (true) {} }); function add(a, b) { return a + b; }",
      0,
      false,
    ],
    ["loops while it becomes text", "", "function add() { return { toJSON() { while (true) {} } }; }", 0, false],
    ["fills the memory", "", "function add() { const a = []; while (true) a.push(new Array(1e6).fill(1)); }", 0, false],
    ["falls into itself", "", "function add() { return add(); }", 0, false],
    ["reaches for the process", "", "function add() { return process.exit(); }", 0, false],
    [
      "reaches for the process through a constructor",
      "",
      'function add() { return add.constructor("return process")().exit(); }',
      0,
      false,
    ],
    ["returns no value", "", "function add() {}", 0, false],
    ["is exported", "", `export ${tsAnswer}`, 1, true],
    ["is exported at the end", "", `${tsAnswer}\nexport { add };`, 1, true],
    ["has an enum", "", `enum Way { Up, Down }\n${tsAnswer.replace("a + b", "a + b + Way.Up")}`, 1, true],
    ["prints", "", `${tsAnswer}\nconsole.log(add(1, 2));`, 1, true],
    ["is nested deeply", "", `${tsAnswer}\n${"(".repeat(20_000)}`, 0, false],
  ]);

  scores(
    "TypeScript of no number",
    { kind: "code", language: "typescript", name: "f", calls: [{ args: [], expect: null }] },
    [
      ["null", "", "function f() { return null; }", 1, true],
      ["nothing at all", "", "function f() {}", 0, false],
      ["no number", "", "function f() { return NaN; }", 0, false],
    ],
  );
});

const python: Check = { kind: "code", language: "python", name: "add", calls };
const pyAnswer = "def add(a, b):\n    return a + b";
/** A generator can see its caller: here the harness's frames. */
const generatorFrame = `def add(a, b):
    def walk():
        yield g.gi_frame.f_back.f_back.f_globals
    g = walk()
    for names in g:
        names["sys"].modules["os"].abort()
    return a + b`;
describe.skipIf(!hasWalls || !hasPython())("with walls and python3", () => {
  scores("Python", python, [
    ["right", "", pyAnswer, 1, true],
    ["right in a fence", "", `\`\`\`python\n${pyAnswer}\n\`\`\``, 1, true],
    ["right for one call only", "", pyAnswer.replace("+", "|"), 0.5, false],
    ["another name", "", pyAnswer.replace("add", "plus"), 0, false],
    ["a bad indent", "", pyAnswer.replace("    ", ""), 0, false],
    ["nothing", "", "", 0, false],
    ["loops without end", "", "def add(a, b):\n    while True:\n        pass", 0, false],
    ["raises", "", "def add(a, b):\n    raise ValueError(1)", 0, false],
    ["imports", "", `import math\nfrom collections import Counter\n${pyAnswer}`, 1, true],
    [
      "writes results itself",
      "",
      `import os\nos.write(1, b'[{"value": 3}, {"value": 0}, {"value": 0}]')\nos._exit(0)`,
      0,
      false,
    ],
    ["prints", "", `${pyAnswer.replace("    ", "    print(a)\n    ")}\nprint(add(1, 2))`, 1, true],
    ["opens a file", "", "def add(a, b):\n    return len(open('/etc/hostname').read())", 0, false],
    ["reaches for classes", "", "def add(a, b):\n    return ().__class__.__bases__", 0, false],
    ["reaches for a generator's frame", "", generatorFrame, 0, false],
    ["fills the memory", "", "def add(a, b):\n    return len([0] * 4_000_000_000)", 0, false],
    ["gives no number once", "", `def add(a, b):\n    return a + b if b > 0 else float("inf")`, 0.5, false],
    ["gives a negative zero", "", "def add(a, b):\n    return (a + b) * (1.0 if b > 0 else -1.0)", 1, true],
    ["writes without end", "", "def add(a, b):\n    return 'x' * 3_000_000", 0, false],
    ["uses methods", "", "def add(a, b):\n    return sum({'a': a, 'b': b}.values())", 1, true],
    ["reaches for classes through a format", "", "def add(a, b):\n    return '{0.__class__}'.format(a)", 0, false],
  ]);
});

it(
  "says what was wrong",
  async () => {
    expect(await scoreAnswer({ kind: "json" }, json, json.replace("Ada", "Eva"))).toMatchObject({
      note: "wrong: name",
    });
    expect(await scoreAnswer(typescript, "", "function add() { return 4; }")).toMatchObject({
      note: "expected 3, got 4",
    });
    expect(await scoreAnswer({ kind: "list", numItems: 2 }, "", "a")).toMatchObject({
      note: "1 items, 1 distinct, for 2",
    });
    expect(await scoreAnswer({ kind: "none" }, "", "a")).toMatchObject({ note: "nothing to score" });
  },
  TIMEOUT_MS,
);

describe("without", () => {
  const check: Check = { kind: "without", faults: ["refusal", "length", "format"], format: { type: "json_object" } };
  const prompt = [{ role: "user", content: "Give JSON" }] as const;
  it.each([
    { answer: '{"a": 1}', end: "stop", exact: true, note: undefined },
    { answer: "I'm sorry, I can't.", end: "stop", exact: false, note: /^refusal: .*format: no JSON$/ },
    { answer: '{"a":', end: "length", exact: false, note: /^length: cut/ },
  ] as const)("$answer", async ({ answer, end, exact, note }) => {
    const got = await scoreAnswer(check, "", answer, { prompt, end });
    expect(got.exact).toBe(exact);
    if (note !== undefined) expect(got.note).toMatch(note);
  });
});
