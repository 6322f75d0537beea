import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { lineOf, type PromptMessage, type PromptRequest, plainRequest, readRequests } from "../requests.js";
import { isFaithful, rewritingCandidates } from "./rewrite.js";
import { contentCandidates, formCandidates } from "./rules.js";

const SYSTEM = [
  "You answer questions about orders in one sentence.",
  "The office was founded by two sisters in a house near the river.",
  "You must never promise a date that the order's page does not say.",
].join("\n");
const EXAMPLES: PromptMessage[] = Array.from({ length: 5 }, (_, i) => [
  { role: "user", content: `Where is parcel ${i}?` },
  { role: "assistant", content: `In town ${i}.` },
]).flat();
const tool = (name: string) => ({ type: "function", function: { name } });

const requests = Array.from({ length: 20 }, (_, i) =>
  plainRequest(
    [{ role: "system", content: SYSTEM }, ...EXAMPLES, { role: "user", content: `Order ${i}: where is it?` }],
    i === 3 ? "I ask parcels." : "In town 9.",
    [tool("parcels"), tool("refunds")],
  ),
);
const textOf = ({ messages }: PromptRequest): string => messages.map(({ content }) => content).join("\n--\n");
const applied = async (name: string, all: readonly PromptRequest[] = requests) => {
  const candidate = [...formCandidates(), ...contentCandidates(all)].find((each) => each.name.startsWith(name))!;
  return candidate.apply(all);
};

test("examples go from the last on; the question stays", async () => {
  const names = contentCandidates(requests).map(({ name }) => name);
  expect(names.filter((name) => name.startsWith("examples"))).toEqual([
    "examples, 0 of 5",
    "examples, 1 of 5",
    "examples, 2 of 5",
    "examples, 4 of 5",
  ]);
  const [first] = await applied("examples, 1 of 5");
  expect(first!.messages.map(({ content }) => content)).toEqual([
    SYSTEM,
    "Where is parcel 0?",
    "In town 0.",
    "Order 0: where is it?",
  ]);
});

test("a shared passage goes; one that obliges, and the question, are no candidates", async () => {
  const names = contentCandidates(requests).map(({ name }) => name);
  expect(names.filter((name) => name.startsWith("passage"))).toEqual([
    'passage "The office was founded by two sisters in…"',
    'passage "You answer questions about orders in one…"',
  ]);
  for (const request of await applied('passage "The office')) {
    expect(textOf(request)).not.toContain("sisters");
    expect(textOf(request)).toContain("one sentence.\nYou must never");
  }
});

test("tools that no answer names go", async () => {
  for (const { tools } of await applied("tools, 1 of 2")) expect(tools.map(({ name }) => name)).toEqual(["parcels"]);
});

test("a line and a sentence that were said before go, in code they stay", async () => {
  const said = "The parcel was handed to the carrier on its way to you.";
  const content = `${said} It is blue.\n${said}\nAs said: it is late. ${said} It is big.\n\`\`\`\n${said}\n\`\`\`\n${said} Where?`;
  const request = plainRequest([{ role: "user", content }], "");
  const [shorter] = await applied("repetitions", [request]);
  expect(textOf(shorter!)).toBe(
    `${said} It is blue.\nAs said: it is late. It is big.\n\`\`\`\n${said}\n\`\`\`\n${said} Where?`,
  );
});

test("without a repetition, or in answers of examples, nothing changes", async () => {
  const sentence = "This sentence is long enough to count as said before.";
  const shot = [
    { role: "assistant", content: `${sentence} ${sentence}` },
    { role: "user", content: sentence },
  ];
  const request = plainRequest(shot, "");
  expect((await applied("repetitions", [request]))[0]).toBe(request);
  fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.stringMatching(/^[a-z ]{0,60}$/)), async (lines) => {
      const one = plainRequest([{ role: "user", content: lines.join("\n") }], "");
      const [after] = await formCandidates()[2]!.apply([one]);
      const left = new Set(after!.messages[0]!.content.split("\n").map((line) => line.trim()));
      for (const line of lines) if (line.trim() !== "") expect(left).toContain(line.trim());
    }),
  );
});

test("a rewriting that is longer, or loses a number, a name or a placeholder, is not used", async () => {
  const prompt =
    "Please do always remember that you answer for Bea Lind, in at most 17 words, and that {question} is what the customer would like to know.";
  expect(isFaithful(prompt, "Answer {question} for Bea Lind in 17 words.")).toBe(true);
  expect(isFaithful(prompt, "Answer {question} for Bea Lind briefly.")).toBe(false);
  expect(isFaithful(prompt, "Answer for Bea Lind in 17 words.")).toBe(false);
  for (const longer of ["117", "17.5", "1,17", "170"]) {
    expect(isFaithful(prompt, `Answer {question} for Bea Lind in ${longer} words.`), longer).toBe(false);
  }
  expect(isFaithful(prompt, "Answer {question} for Bea Linden in 17 words.")).toBe(false);
  expect(isFaithful(prompt, "Bea Lind says 17.5, then 17: {question}")).toBe(true);
  expect(isFaithful(prompt, "")).toBe(false);
  expect(isFaithful(prompt, `${prompt} More.`)).toBe(false);
  const all = Array.from({ length: 5 }, (_, i) =>
    plainRequest(
      [
        { role: "system", content: prompt },
        { role: "user", content: `Question ${i}` },
      ],
      "",
    ),
  );
  const asked: string[] = [];
  const answers = ["=====\nAnswer {question} for Bea Lind in 17 words.\n=====", "I cannot."];
  const [half, shorter] = rewritingCandidates(async (message) => {
    asked.push(message);
    return answers[asked.length - 1];
  });
  const rewritten = await half!.apply(all);
  expect(new Set(rewritten.map(({ messages }) => messages[0]!.content))).toEqual(
    new Set(["Answer {question} for Bea Lind in 17 words."]),
  );
  expect(await shorter!.apply(all)).toEqual(all);
  expect(asked.length).toBe(2);
  // The written texts are the judged ones: the model is not asked again.
  expect(await half!.apply(all)).toEqual(rewritten);
  expect(await shorter!.apply(all)).toEqual(all);
  expect(asked.length).toBe(2);
});

test("a recorded request keeps its fields where examples and all tools go", async () => {
  const path = join(
    tempTree({
      "requests.jsonl": Array.from({ length: 20 }, (_, i) =>
        JSON.stringify({
          model: "m",
          tools: [tool("refunds")],
          tool_choice: "auto",
          messages: [
            { role: "system", content: SYSTEM },
            ...EXAMPLES.map((message) => ({ ...message, name: "example" })),
            { role: "user", content: `Order ${i}?`, name: `customer ${i}` },
          ],
          response: { choices: [{ message: { role: "assistant", content: "Yes." } }] },
        }),
      ).join("\n"),
    }),
    "requests.jsonl",
  );
  const shorter = await applied("tools, 0 of 1", await applied("examples, 0 of 5", readRequests(path)));
  expect(shorter.map(lineOf)[7]).toEqual({
    model: "m",
    messages: [
      { role: "system", content: SYSTEM },
      { role: "user", content: "Order 7?", name: "customer 7" },
    ],
  });
});
