/**
 * A server whose fake model says what a function of its prompt's text says: for clients that hold conversations with
 * tools.
 */
import type { EngineRequest } from "../../src/engine/api/request.js";
import { toolTemplate } from "./chat-templates.js";
import { type FakeServer, startFakeServer } from "./fake-server.js";
import { EOS_ID, fakeTokenizer } from "./fake-tokenizer.js";

export function startAnswering(
  answer: (prompt: string) => string,
  chatTemplate = toolTemplate,
  tokensPerStep = 1,
): Promise<FakeServer> {
  const script = ({ promptIds }: EngineRequest) => [...Buffer.from(answer(fakeTokenizer.decode(promptIds))), EOS_ID];
  return startFakeServer({ script, tokensPerStep }, { chatTemplate });
}

/** As templates of Hermes' format have it. */
export const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>';

/** Calls once, and answers when the result is there. */
export const agent = (prompt: string): string => (prompt.includes("sunny") ? "It is sunny." : `I look.\n${CALL}`);
