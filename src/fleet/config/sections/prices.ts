/**
 * Keys for the cost of tokens and hardware: `prices`, `hardware-price`, `batch-price-share`, and `price` of a model.
 */
import { z } from "zod";
import { parsed, section, text } from "../../../core/config-values.js";
import { decimalText, parseDollars } from "../../../gateway/money.js";

const DOLLARS = /^\d{1,9}(\.\d{1,9})?$/;

/** Dollars as nano-dollars. A number is read from its written digits: 0.15 is exactly 0.15. */
export const dollars = () =>
  z
    .union([z.string().regex(DOLLARS), z.number().min(0)])
    .meta({ title: "dollars with at most nine decimals", examples: ["0.15", "2.50"] })
    .transform((written, context) => {
      const nano = parseDollars(decimalText(written));
      if (nano !== undefined) return nano;
      context.addIssue({ code: "custom", message: "dollars with at most nine decimals" });
      return z.NEVER;
    });

/** Dollars per hour, as nano-dollars. */
const hourly = () =>
  parsed("dollars for an hour", ["1.20/h"], /^\d{1,9}(\.\d{1,9})?\/h$/, (written) =>
    parseDollars(written.slice(0, -2)),
  );

const amounts = {
  input: dollars().describe("dollars for a million tokens of prompts"),
  "cache-read": dollars().optional().describe("the same for tokens read from the prefix cache (default: input)"),
  "cache-write": dollars().optional().describe("the same for tokens written to a paid cache (default: input)"),
  output: dollars().describe("the same for tokens of answers, reasoning among them"),
};

export const modelPriceKeys = {
  price: section(amounts).optional().describe("price of the model's tokens; 0: free (default: as `prices` has it)"),
  "hardware-price": hourly()
    .optional()
    .describe("price of an hour of one instance, shared by the requests that it works on (default: the fleet's)"),
};

export const priceKeys = {
  prices: z
    .array(section({ model: text("a model's name here or at its API").describe("the model"), ...amounts }))
    .default([])
    .describe("prices of models, before the list prices of paid APIs that millrace brings"),
  "hardware-price": hourly().optional().describe("price of an hour of one instance of any model"),
  "batch-price-share": z
    .number()
    .min(0)
    .max(1)
    .prefault(0.5)
    .describe("share of the price that requests of batches cost on hardware of your own, in steps of 0.001"),
};
