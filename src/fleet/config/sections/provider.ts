/** Keys for attaching to servers, including the paid APIs. */
import { z } from "zod";
import { integer, parsed, secret, section, text } from "../../../core/config-values.js";

/** The address of a server. Its path is that of the API, in place of /v1. */
const serverUrl = () =>
  parsed(
    "the URL of a server, without user and query",
    ["http://127.0.0.1:8101", "https://openrouter.ai/api/v1"],
    /^https?:\/\//,
    (written) => {
      if (!URL.canParse(written)) return undefined;
      const { origin, pathname, search, hash, username, password } = new URL(written);
      if (`${search}${hash}${username}${password}` !== "") return undefined;
      return origin + pathname.replace(/\/+$/, "");
    },
  );

export const attachment = (environment: NodeJS.ProcessEnv) =>
  section({
    url: serverUrl()
      .optional()
      .describe("address of the server, for a host of several APIs with the path of one (default: the provider's own)"),
    "api-key": secret(environment).optional().describe("API key for that server"),
    "model-name": text().optional().describe("name of the model on that server, if it differs from `name`"),
    region: text()
      .optional()
      .describe("region of the server, one of `regions` (default: the gateway's own, which is the nearest)"),
    "max-concurrency": integer(1, 65_536)
      .optional()
      .describe("requests at once to a paid API with this key; further ones wait (default: as many as come)"),
    probe: z
      .boolean()
      .optional()
      .describe(
        "whether the server is asked for its health (default: engines yes, paid APIs and https addresses of openai no)",
      ),
    "aws-region": text("a region of AWS, such as us-east-1")
      .regex(/^[a-z0-9-]+$/)
      .optional()
      .describe("region of bedrock, which is part of its address and of the signature"),
    "access-key-id": secret(environment).optional().describe("AWS access key of bedrock, where there is no api-key"),
    "secret-access-key": secret(environment).optional().describe("its secret"),
    "session-token": secret(environment).optional().describe("its session token, if it is a temporary one"),
  });

export type Attachment = z.output<ReturnType<typeof attachment>>;

export const provider = () =>
  section({
    "drop-params": z
      .boolean()
      .default(false)
      .describe("whether fields that a paid API has no equivalent of are left out and listed, rather than refused"),
    responses: z
      .enum(["pass", "translate"])
      .default("pass")
      .describe(
        "how a host of openai or azure gets `/v1/responses`: as they are, or as chat completions, which hosts without that path have; other paid APIs always get them translated",
      ),
    "default-max-tokens": integer(1, 2 ** 30)
      .default(8192)
      .describe("max_tokens of requests without, where the paid API insists on one (anthropic)"),
    thinking: z
      .enum(["effort", "budget"])
      .default("effort")
      .describe("how a model is told how much to think: by its effort, or by a budget of tokens, as older ones are"),
    "bedrock-api": z
      .enum(["converse", "invoke"])
      .default("converse")
      .describe("how Claude on bedrock is asked: in Bedrock's dialect or in Claude's own"),
    "api-version": text()
      .optional()
      .describe("version of azure's API, where deployments are parts of the path (default: its v1, without versions)"),
    "batch-endpoint": z
      .boolean()
      .default(false)
      .describe("whether lines of batches go to the paid API's own batch endpoint (openai, anthropic), at its price"),
    "batch-price-share": z
      .number()
      .min(0)
      .max(1)
      .default(0.5)
      .describe("share of the price that it charges there, in steps of 0.001"),
  });
