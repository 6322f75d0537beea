import fc from "fast-check";
import { expect, test } from "vitest";
import {
  curlOf,
  DEFAULT_SETTINGS,
  describeCost,
  describeSpeed,
  droppable,
  dropTurns,
  lastQuestion,
  proposedDrop,
  requestOf,
  sentContent,
  type Turn,
  titleOf,
  withoutTurns,
  withQuestion,
} from "./conversation.js";

const user = (content: string): Turn => ({ role: "user", content });
const model = (content: string): Turn => ({ role: "assistant", content });
const messagesOf = (turns: readonly Turn[], settings = DEFAULT_SETTINGS) =>
  (requestOf({ model: "m", turns }, settings).messages as { role: string; content: string }[]).map(
    ({ role, content }) => `${role}: ${content}`,
  );

test("a request has the turns that are sent, the system prompt, and the fields that are set", () => {
  const turns = [user("a"), model("b"), user("c"), model("")];
  const settings = { ...DEFAULT_SETTINGS, system: "Be brief.", temperature: "0", format: "json" } as const;
  expect(messagesOf(turns, settings)).toEqual(["system: Be brief.", "user: a", "assistant: b", "user: c"]);
  const request = requestOf({ model: "m", turns }, settings);
  expect(request).toMatchObject({ model: "m", temperature: 0, response_format: { type: "json_object" } });
  expect(Object.keys(request)).not.toContain("top_p");
});

test("an answer that is gone on with is the last message", () => {
  const request = requestOf({ model: "m", turns: [user("a"), model("Once")] }, DEFAULT_SETTINGS);
  expect(request).toMatchObject({ continue_final_message: true, add_generation_prompt: false });
  expect(requestOf({ model: "m", turns: [user("a"), model("")] }, DEFAULT_SETTINGS)).not.toHaveProperty(
    "continue_final_message",
  );
});

test.each(["", "{", "5", "[]", "null"])("a schema that is %j is an error", (schema) => {
  const settings = { ...DEFAULT_SETTINGS, format: "schema", schema } as const;
  expect(() => requestOf({ model: "m", turns: [user("a")] }, settings)).toThrow(SyntaxError);
});

test("a file cannot leave its fence", () => {
  const text = sentContent({ ...user("What is it?"), files: [{ name: "a.md", text: "x\n````\ny" }] });
  expect(text).toBe("File a.md:\n`````\nx\n````\ny\n`````\n\nWhat is it?");
});

const conversations = fc
  .array(fc.tuple(fc.string({ minLength: 1 }), fc.string({ minLength: 1 })), { minLength: 1, maxLength: 8 })
  .map((pairs) => pairs.flatMap(([question, answer]) => [user(question), model(answer)]));

test("pictures go behind the words, as parts of their own", () => {
  const image = "data:image/png;base64,AAAA";
  const picture = { name: "a.png", text: "", image };
  const part = { type: "image_url", image_url: { url: image } };
  const seen = { ...user("What is it?"), files: [picture, { name: "a.md", text: "x" }] };
  expect(sentContent(seen)).toEqual([{ type: "text", text: "File a.md:\n```\nx\n```\n\nWhat is it?" }, part]);
  expect(requestOf({ model: "m", turns: [{ ...user(""), files: [picture] }] }, DEFAULT_SETTINGS).messages).toEqual([
    { role: "user", content: [part] },
  ]);
});

test("what is dropped to make room is sent no more; the last question always is", () => {
  fc.assert(
    fc.property(conversations, (turns) => {
      const dropped = dropTurns(turns, proposedDrop(turns));
      const sent = messagesOf(dropped);
      expect(sent).toHaveLength(turns.length - proposedDrop(turns).length);
      expect(sent).toContain(`user: ${turns[lastQuestion(turns)]!.content}`);
      // Drops whole exchanges.
      expect(proposedDrop(turns).length % 2).toBe(0);
      expect(droppable(turns).length === 0 || proposedDrop(turns).length > 0).toBe(true);
    }),
  );
});

test("a new question replaces one that got no answer", () => {
  const turns = withQuestion([user("a"), model("b"), user("c"), model("")], user("d"));
  expect(turns.map(({ content }) => content)).toEqual(["a", "b", "d", ""]);
});

test("a question that one pane withdraws goes in the others, which may lack questions or have more", () => {
  const contents = (turns: readonly Turn[]) => turns.map(({ content }) => content);
  const all = [user("q"), model("1"), user("r"), model("2"), user("q"), model("3")];
  const withoutFirst = all.slice(2);
  const withoutSecond = [...all.slice(0, 2), ...all.slice(4)];
  expect(contents(withoutTurns(all, withoutFirst.slice(2)))).toEqual(["q", "1", "r", "2"]);
  expect(contents(withoutTurns(all, withoutSecond))).toEqual([]);
  expect(contents(withoutTurns(withoutSecond, all.slice(2)))).toEqual(["q", "1"]);
  expect(withoutTurns(withoutFirst, all)).toEqual(withoutFirst.slice(2, 2));
  expect(withoutTurns([], all)).toEqual([]);
});

test("titles, speeds and commands", () => {
  expect(titleOf([{ model: "m", turns: [user("  Tell\nme  ")] }])).toBe("Tell me");
  expect(titleOf([{ model: "m", turns: [user("x".repeat(100))] }])).toHaveLength(60);
  expect(describeSpeed({ numTokens: 41, firstMs: 120, restMs: 1000 })).toBe(
    "41 tokens · 40.0 tokens/s · first token after 120 ms",
  );
  expect([0, 3e-9, 0.0000123, 20].map(describeCost)).toEqual(["$0", "$0.000000003", "$0.0000123", "$20"]);
  expect(curlOf({ a: "it's" }, "http://h/")).toContain(`-d '{"a":"it'\\''s"}'`);
});
