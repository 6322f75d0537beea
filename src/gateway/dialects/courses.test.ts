import { expect, test } from "vitest";
import { ChatAnswerReader } from "./answer/read-chat-answer.js";
import { ConverseAnswerReader } from "./answer/read-converse-answer.js";
import { GeminiAnswerReader } from "./answer/read-gemini-answer.js";
import { MessagesAnswerReader } from "./answer/read-messages-answer.js";
import type { AnswerWriter } from "./conversation/answer-parts.js";
import { ChatCourse, MessagesCourse, TranslatedCourse } from "./courses.js";
import type { AnswerCourse } from "./translation.js";

const noWriter: AnswerWriter = { stream: () => "", streamEnd: () => "", whole: () => ({}) };
const chatAnswer = { choices: [{ message: { content: "Hi" }, finish_reason: "stop" }] };
const messagesAnswer = { content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn" };

/** For each dialect, native and translated: the courses that take an answer with this usage. */
const CHAT: readonly (readonly [() => AnswerCourse, object])[] = [
  [() => new ChatCourse(true, true), chatAnswer],
  [() => new TranslatedCourse(new ChatAnswerReader(), noWriter, false), chatAnswer],
];
const MESSAGES: readonly (readonly [() => AnswerCourse, object])[] = [
  [() => new MessagesCourse(), messagesAnswer],
  [() => new TranslatedCourse(new MessagesAnswerReader(), noWriter, false), messagesAnswer],
];

function countsOf(course: AnswerCourse, body: object) {
  course.whole(body as Record<string, unknown>, Buffer.from(JSON.stringify(body)));
  return course.counts();
}

test.each(CHAT)("reasoning that stands beside the completion is output (%o)", (course, body) => {
  const usage = {
    prompt_tokens: 32,
    completion_tokens: 9,
    total_tokens: 1135,
    completion_tokens_details: { reasoning_tokens: 1094 },
  };
  expect(countsOf(course(), { ...body, usage })).toMatchObject({ fresh: 32, output: 1103, reasoning: 1094 });
});

test.each([
  ...[{}, { prompt_tokens: -1, completion_tokens: -1 }, { prompt_tokens: 0, completion_tokens: 0 }].flatMap((usage) =>
    CHAT.map(([course, body]) => [course, { ...body, usage }] as const),
  ),
  ...MESSAGES.map(([course, body]) => [course, { ...body, usage: { input_tokens: 0, output_tokens: 0 } }] as const),
])("a usage without a count is none, so that the answer is estimated (%#)", (course, body) => {
  expect(countsOf(course(), body)).toBeUndefined();
});

test("what a report in the middle of a stream has not is that of the beginning", () => {
  const course = new MessagesCourse();
  const event = (value: Record<string, unknown>) =>
    course.event(value, { name: String(value.type), data: JSON.stringify(value) });
  event({
    type: "message_start",
    message: { usage: { input_tokens: 25, cache_read_input_tokens: 5, output_tokens: 1 } },
  });
  event({ type: "message_delta", delta: {}, usage: { input_tokens: null, output_tokens: 40 } });
  expect(course.counts()).toMatchObject({ fresh: 25, cacheRead: 5, output: 40 });
});

test("a stream without end is refused where the client wants the whole", () => {
  const course = new TranslatedCourse(new ChatAnswerReader(), noWriter, false);
  const content = "x".repeat(1024 * 1024);
  const say = () => course.event({ choices: [{ index: 0, delta: { content } }] }, { name: "", data: "" });
  for (let i = 0; i < 16; i++) say();
  expect(say).toThrow("characters");
});

test("Google's thoughts and Bedrock's cached tokens are counted apart", () => {
  const google = {
    candidates: [{ content: { parts: [{ text: "Hi" }] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 10, cachedContentTokenCount: 4, candidatesTokenCount: 2, thoughtsTokenCount: 7 },
  };
  expect(countsOf(new TranslatedCourse(new GeminiAnswerReader(), noWriter, false), google)).toMatchObject({
    fresh: 6,
    cacheRead: 4,
    output: 9,
    reasoning: 7,
  });
  const bedrock = {
    output: { message: { content: [{ text: "Hi" }] } },
    stopReason: "end_turn",
    usage: { inputTokens: 6, cacheReadInputTokens: 4, cacheWriteInputTokens: 3, outputTokens: 9 },
  };
  expect(countsOf(new TranslatedCourse(new ConverseAnswerReader(), noWriter, false), bedrock)).toMatchObject({
    fresh: 6,
    cacheRead: 4,
    cacheWrite: 3,
    output: 9,
  });
});
