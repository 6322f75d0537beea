/** The rules, one by one and in order, and the classes of the corpus. */
import { expect, test } from "vitest";
import { chatAt, readMixture } from "../../../models/corpus/families.js";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { countClasses, type RuledRequest, taskClassOf } from "./task-classes.js";

const request = (asked: string, more: Partial<RuledRequest> = {}): RuledRequest => ({
  hasFormat: false,
  tools: [],
  messages: [{ role: "user", content: asked }],
  ...more,
});
const nameOf = (asked: string, answer: string, more: Partial<RuledRequest> = {}): string =>
  taskClassOf(request(asked, more), answer).name;

const LETTER =
  "Dear Ada, the wheel of the upper mill turns again since Monday, and the miller asks for two sacks of rye by Friday.";

test.each<[string, string, string, string, Partial<RuledRequest>?]>([
  ["sql", "its own label", "Say hello.", '{"a": 1}', { label: "sql", hasFormat: true }],
  ["json", "response_format", "Say hello.", "hello", { hasFormat: true }],
  ["json", "tools", "What is the weather?", "It rains.", { tools: [{}] }],
  ["json", "the answer is JSON", "Who wrote?", '{"name": "Ada"}'],
  ["json", "the answer is JSON", "Who wrote?", '[{"name": "Ada", "mills": ["upper", "lo'],
  ["edit", "the answer repeats its prompt", `Write Bea instead of Ada: ${LETTER}`, LETTER.replace("Ada", "Bea")],
  [
    "edit",
    "the answer repeats its prompt",
    "Fix:\nlet a = [1, 2, 3];\nlet b = a;",
    "let a = [1, 2, 3];\nlet b = a + 1;",
  ],
  ["code", "fenced code", "How do I list files?", "Like this:\n```sh\nls\n```"],
  ["code", "lines of code", "Add two numbers.", "function add(a, b) {\n  return a + b;\n}"],
  ["creative", "asks for a story, a poem or the like", "Tell me a short story about a fox.", "A fox went to the mill."],
  ["chat", "none of these", "How are you?", "I am well; the river is high today."],
  ["chat", "none of these", "What is in brackets?", "[1] is a reference, and so is [2]."],
])("%s, since %s: %s", (name, because, asked, answer, more) => {
  expect(taskClassOf(request(asked, more), answer)).toEqual({ name, because });
});

test("a short answer that stands in the prompt is no edit, and a word of stories in the answer asks for none", () => {
  expect(nameOf("Which wheel turns? The upper wheel turns.", "The upper wheel turns.")).toBe("chat");
  expect(nameOf("What do you like?", "I like a good story and a poem.")).toBe("chat");
});

test.each([
  ["extract", "json", 0.9],
  ["code", "code", 0.9],
  // The other chats ask about the story.
  ["story", "creative", 0.75],
  // The other chats edit JSON, or a short line.
  ["edit", "edit", 0.75],
  ["identity", "chat", 0.9],
])("chats of the family %s are of class %s, at least %d of them", (family, name, least) => {
  const names = Array.from({ length: 60 }, (_, index) => {
    const { messages } = chatAt(1_000_001, index, readMixture(family));
    return taskClassOf({ ...request(""), messages: messages.slice(0, -1) }, messages.at(-1)!.content).name;
  });
  expect(names.filter((each) => each === name).length / names.length).toBeGreaterThanOrEqual(least);
});

test("texts of any size and form are told apart in little time", () => {
  const long = "a b c d ".repeat(100_000);
  const startMs = computedMs();
  expect(nameOf(long, long)).toBe("edit");
  expect(nameOf("x", " ".repeat(1_000_000))).toBe("chat");
  expect(nameOf("x", "if ".repeat(100_000))).toBe("chat");
  expect(nameOf("x", "[{".repeat(100_000))).toBe("code");
  expect(computedMs() - startMs).toBeLessThan(5000);
});

test("classes are counted with their rules and their share of the time", () => {
  const json = { name: "json", because: "tools" };
  const classes = [
    json,
    { name: "json", because: "response_format" },
    json,
    { name: "chat", because: "none of these" },
  ];
  expect(countClasses(classes, [1, 1, 2, 12])).toEqual([
    { name: "chat", numRequests: 1, rules: [{ because: "none of these", numRequests: 1 }], share: 0.75 },
    {
      name: "json",
      numRequests: 3,
      rules: [
        { because: "tools", numRequests: 2 },
        { because: "response_format", numRequests: 1 },
      ],
      share: 0.25,
    },
  ]);
});
