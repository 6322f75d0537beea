/** The key `max-tokens` of models and routes: the limit of answers' lengths. */
import { z } from "zod";
import { integer, section } from "../../../core/config-values.js";

const MAX_TOKENS = 2 ** 30;

export const lengthKeys = {
  "max-tokens": section({
    default: z
      .union([z.literal("auto"), integer(1, MAX_TOKENS)])
      .optional()
      .meta({ title: "a number of tokens, or auto" })
      .describe(
        "limit of requests that set none; auto: 1.5 times the 99th percentile of the key's answers, else of everybody's, from 100 answers on",
      ),
    cap: integer(1, MAX_TOKENS)
      .optional()
      .describe(
        "the most tokens that an answer may have, whatever a request says; behind a route or cascade, the lowest cap of its models holds too",
      ),
  })
    .optional()
    .describe("how long answers may get"),
};
