/** The real proxy with guardrails, in front of a server that answers as a test says. */
import { pino } from "pino";
import { parseConfig } from "../../src/fleet/config/read-config.js";
import { createGuardrails } from "../../src/fleet/gateway/hook-policies.js";
import type { Json } from "./json.js";
import { answerJson, type Behaviour, startFleet, type TestFleet } from "./stand-in.js";

export async function startGuarded(guardrails: string, behaviour: Behaviour = answerJson({})): Promise<TestFleet> {
  const file = `models:\n  - {name: m, attach: [{url: "http://127.0.0.1:1"}]}\nhooks:\n  guardrails:\n${guardrails}`;
  const config = parseConfig(file, "millrace.yaml", {});
  const guardrailsPolicy = createGuardrails({
    config: () => config,
    models: { resolve: (name) => name },
    logger: pino({ level: "silent" }),
  });
  const policies = guardrailsPolicy === undefined ? [] : [guardrailsPolicy];
  return await startFleet([behaviour], { proxy: { policies } });
}

export const rail = (action: string, more = "") => `    - {name: pii, find: [email, iban], action: ${action}${more}}\n`;
export const MAIL = "john@example.com";
export const user = (content: unknown) => [{ role: "user", content }];

export const post = async (fleet: TestFleet, path: string, body: object, init: RequestInit = {}) => {
  const answer = await fleet.post(path, { model: "m", ...body }, init);
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    json: (text.startsWith("{") ? JSON.parse(text) : {}) as Json,
  };
};
