/** The keys `routes` and `cascades` of millrace.yaml. */
import { z } from "zod";
import { integer, section, text } from "../../../core/config-values.js";
import { ERROR_CLASSES, type ErrorClass } from "../../../gateway/routes/error-class.js";
import { LANGUAGES, SCRIPTS } from "../../../gateway/routes/language.js";
import { RESPONSE_FORMATS } from "../../../gateway/routes/request-facts.js";
import { lengthKeys } from "./lengths.js";

const MAX_TOKENS = 2 ** 30;
const MAX_BYTES = 2 ** 31;

const name = () => text("a name without spaces").regex(/^\S+$/);
const names = (description: string) => z.array(text()).min(1).optional().describe(description);

const range = (max: number, what: string, unit: string) =>
  z
    .strictObject({
      min: integer(0, max).optional().describe(`least ${what}`),
      max: integer(0, max).optional().describe(`most ${what}`),
    })
    .optional()
    .describe(`${unit}, at least \`min\` and at most \`max\``);

const when = () =>
  section({
    model: names("names that the client sent: the route's own name or an alias"),
    tenant: names("owners of the request's key"),
    key: names("ids of keys"),
    team: names("teams of keys"),
    "prompt-tokens": range(MAX_TOKENS, "tokens", "tokens of the prompt, estimated at four bytes each"),
    "prompt-bytes": range(MAX_BYTES, "bytes", "bytes of the prompt's texts"),
    language: z.array(z.enum(LANGUAGES)).min(1).optional().describe("languages of the last message, as guessed"),
    script: z.array(z.enum(SCRIPTS)).min(1).optional().describe("scripts of the last message"),
    tools: z.boolean().optional().describe("whether the request has tools"),
    "response-format": z
      .array(z.enum(RESPONSE_FORMATS))
      .min(1)
      .optional()
      .describe("forms that the request asks the answer to have"),
    headers: z
      .record(z.string().regex(/^[a-z0-9-]+$/), z.array(z.string()).min(1))
      .optional()
      .describe("allowed values, by the header's name in lower case"),
    path: z.array(text("a path").regex(/^\//)).min(1).optional().describe("paths, such as /v1/messages"),
  });

const target = () =>
  z.strictObject({
    model: name().describe("a model, or a cascade"),
    weight: z.number().min(0).max(1e6).default(1).describe("share relative to the sum of all weights"),
  });

const targets = () =>
  z
    .union([name(), z.array(target()).min(1)])
    .meta({ title: "a model, or a list such as [{model: a, weight: 95}, {model: b, weight: 5}]" })
    .transform((value) => (typeof value === "string" ? [{ model: value, weight: 1 }] : value));

const FALLBACKS: Readonly<Record<ErrorClass, string>> = {
  unavailable: "models that get the request if there is no connection, no instance, or an answer of 5xx",
  timeout: "models that get it if no answer began in time",
  overload: "models that get it after 429",
  "context-length": "models that get it if the prompt was too long",
  "content-filter":
    "models that get it if a provider's filter refused or cut the answer; whole answers are then held back",
};

const fallback = () =>
  z.strictObject(
    Object.fromEntries(ERROR_CLASSES.map((each) => [each, names(FALLBACKS[each])])) as Record<
      ErrorClass,
      ReturnType<typeof names>
    >,
  );

const MAX_SAMPLES = 8;

const agreement = () =>
  section({
    samples: integer(1, MAX_SAMPLES).prefault(2).describe("further answers of the small model"),
    share: z.number().min(0).max(1).prefault(1).describe("least share of them that must equal the answer"),
    temperature: z.number().min(0).max(2).prefault(0.7).describe("temperature of these answers"),
  });

const audit = () =>
  section({
    share: z.number().min(0.001).max(1).prefault(0.03).describe("share of requests that go to both models, at random"),
    "max-loss": z
      .number()
      .min(0.001)
      .max(0.9)
      .prefault(0.05)
      .describe("share of all requests that may get a worse answer; above it the cascade closes"),
    "alarm-every": integer(20, 1e9)
      .prefault(10_000)
      .describe("while the loss is within the bound, the cascade closes once in at least this many audited requests"),
    judge: name().optional().describe("model that compares the answers (default: answers must be equal)"),
  });

export const cascades = () =>
  z
    .array(
      section({
        name: name().describe("virtual name that clients send as `model`"),
        aliases: z.array(name()).default([]).describe("other names that clients may send"),
        small: name().describe("model that answers first"),
        large: name().describe("model that answers where the judge does not keep the small model's answer"),
        router: text("a file").optional().describe("classifier made by `millrace route train`"),
        floor: z
          .number()
          .min(0)
          .max(1)
          .optional()
          .describe("least probability, by the router, that the answer is as good (default: the file's)"),
        "min-logprob": z
          .number()
          .min(-100)
          .max(0)
          .optional()
          .describe("least mean log-probability of the answer's tokens, in nats"),
        agreement: agreement().optional().describe("further answers of the small model, which must be equal"),
        audit: audit().prefault({}).describe("watches the quality that is lost"),
      }),
    )
    .default([]);

export const routes = () =>
  z
    .array(
      section({
        name: name().describe("virtual name that clients send as `model`"),
        aliases: z.array(name()).default([]).describe("other names that clients may send"),
        rules: z
          .array(
            section({
              when: when().prefault({}).describe("conditions that must all hold (default: none)"),
              to: targets().describe("the models that answer, with their weights"),
            }),
          )
          .min(1)
          .describe("the first rule whose conditions hold decides"),
        fallback: fallback()
          .prefault({})
          .describe("models that get the client's request after an error, before the first byte of an answer"),
        "max-attempts": integer(1, 20).prefault(3).describe("models that one request is sent to at most"),
        ...lengthKeys,
      }),
    )
    .default([]);
