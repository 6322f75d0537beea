/** Keys for the inspection of requests and answers: `hooks`. */
import { z } from "zod";
import { byteSize, integer, parsed, secret, section, text, timeLimit } from "../../../core/config-values.js";
import { ACTIONS } from "../../../gateway/hooks/guard.js";
import { compilePatterns } from "../../../gateway/hooks/pattern-set.js";
import { PERSONAL_DATA } from "../../../gateway/hooks/personal-data.js";
import { STAGES } from "../../../gateway/hooks/stage.js";
import { share } from "./quality.js";

const httpUrl = (example: string) =>
  parsed("an http URL", [example], /^https?:\/\//, (written) => (URL.canParse(written) ? written : undefined));

const patternText = () =>
  z
    .string()
    .min(1)
    .meta({ title: "a regular expression", examples: ["E[0-9]{6}"] })
    .transform((regex, context) => {
      try {
        compilePatterns([{ name: "this one", regex }]);
        return regex;
      } catch (thrown) {
        context.addIssue({ code: "custom", message: (thrown as Error).message });
        return z.NEVER;
      }
    });

const pattern = () =>
  section({
    name: text("a name without spaces")
      .regex(/^[\w-]{1,40}$/)
      .describe("name in errors, and in brackets in place of redacted text"),
    regex: patternText().describe(
      "regular expression, searched for in linear time: no look-around, back-references, ^ and $",
    ),
    "whole-word": z.boolean().prefault(false).describe("whether letters and digits beside a match rule it out"),
    "ignore-case": z.boolean().prefault(false).describe("whether case does not matter"),
  });

const checker = (environment: NodeJS.ProcessEnv) =>
  section({
    url: httpUrl("http://127.0.0.1:9000/moderations").describe(
      'address that gets {"input": texts} and answers {"allowed": true}, or as OpenAI\'s moderations',
    ),
    "api-key": secret(environment).optional().describe("key that it gets as a bearer token"),
    timeout: timeLimit().prefault("2s").describe("time allowed for its answer"),
    "on-failure": z
      .enum(["fail-open", "fail-closed"])
      .prefault("fail-closed")
      .describe("without the checker's answer the text passes, or the request fails with guardrail_failed"),
  });

const guardrail = (environment: NodeJS.ProcessEnv) =>
  section({
    name: text("a name without spaces")
      .regex(/^[\w-]{1,40}$/)
      .describe("name in errors, headers and the log"),
    models: z
      .array(text())
      .min(1)
      .prefault(["*"])
      .describe("models that it guards, by name or alias, as patterns with * and ?"),
    paths: z.array(text()).min(1).prefault(["*"]).describe("paths that it guards, as patterns, such as /v1/chat/*"),
    on: z
      .array(z.enum(STAGES))
      .min(1)
      .prefault([...STAGES])
      .describe("the texts that it reads"),
    find: z.array(z.enum(PERSONAL_DATA)).default([]).describe("personal data that it looks for"),
    patterns: z.array(pattern()).max(64).default([]).describe("further patterns that it looks for"),
    checker: checker(environment).optional().describe("service that is asked; a stream is held until it has answered"),
    action: z
      .enum(ACTIONS)
      .prefault("refuse")
      .describe("refuse: 400 guardrail_refused; redact: replaced by the pattern's name; flag: noted only"),
  });

const langfuse = (environment: NodeJS.ProcessEnv) =>
  section({
    url: httpUrl("https://cloud.langfuse.com").describe("address of Langfuse, without a path"),
    "public-key": text().describe("public key of the project"),
    "secret-key": secret(environment).describe("secret key of the project"),
    models: z.array(text()).min(1).prefault(["*"]).describe("models whose requests are sent, as patterns"),
    prompts: z.boolean().prefault(false).describe("whether prompts and answers are sent too, after guardrails"),
    "max-text-bytes": byteSize().prefault("64KiB").describe("longest prompt and answer that is sent"),
    "max-queue": integer(1, 1_000_000)
      .prefault(10_000)
      .describe("records that may wait to be sent; further ones are dropped and counted"),
  });

const recorder = () =>
  section({
    folder: text("a folder").optional().describe("folder of the files (default: traffic in the data-folder)"),
    models: z.array(text()).min(1).prefault(["*"]).describe("models whose requests are recorded, as patterns"),
    sample: share().prefault("100%").describe("share of requests that are recorded; a session whole or not at all"),
    "max-bytes": byteSize().prefault("1GiB").describe("size of all files; the oldest ones go first"),
    "keep-days": integer(1, 36_500).prefault(30).describe("days after which a file goes, from its first line on"),
  });

export const hooks = (environment: NodeJS.ProcessEnv) =>
  section({
    guardrails: z
      .array(guardrail(environment))
      .max(64)
      .default([])
      .describe("searches in requests and answers, in this order"),
    langfuse: langfuse(environment).optional().describe("sends a record of each request to Langfuse"),
    recorder: recorder().optional().describe("writes chats and their answers into files, after guardrails"),
  });

type HooksConfig = z.output<ReturnType<typeof hooks>>;
export type GuardrailConfig = HooksConfig["guardrails"][number];
