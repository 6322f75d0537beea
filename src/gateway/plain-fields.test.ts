import { expect, test } from "vitest";
import { assertPlainFields, withUsualNames } from "./plain-fields.js";

test.each([
  [{ stream: "true" }, /^stream: expected true or false, got "true"$/],
  [{ stream: 1 }, /^stream: expected true or false, got 1$/],
  [{ n: "1_00" }, /^n: expected an integer of at least 1, got "1_00"$/],
  [{ n: ["100"] }, /^n: expected an integer/],
  [{ n: 0 }, /^n: .* at least 1, got 0$/],
  [{ best_of: 1.5 }, /^best_of: /],
  [{ n_cmpl: true }, /^n_cmpl: /],
  [{ max_tokens: "100" }, /^max_tokens: expected an integer, got "100"$/],
  [{ max_completion_tokens: 0.5 }, /^max_completion_tokens: /],
  [{ max_output_tokens: 2 ** 60 }, /^max_output_tokens: /],
  [{ n_predict: {} }, /^n_predict: /],
])("refuses %j", (body, message) => {
  expect(() => assertPlainFields(body)).toThrow(
    expect.objectContaining({ code: "invalid_parameter", message: expect.stringMatching(message) }),
  );
});

test.each([
  [{}],
  [{ stream: null, n: null, best_of: null, max_tokens: null }],
  [{ stream: false, n: 2, max_tokens: -1, n_predict: -2, max_completion_tokens: 0 }],
])("takes %j", (body) => assertPlainFields(body));

const CHAT = "/v1/chat/completions";

test.each([
  [CHAT, { n_predict: 7 }, { max_tokens: 7 }],
  [CHAT, { max_tokens: 5, n_predict: -1 }, { max_tokens: -1 }],
  [CHAT, { max_completion_tokens: 5, n_predict: 900 }, { max_tokens: 900 }],
  ["/v1/completions", { n_predict: -2 }, { max_tokens: -1 }],
  ["/v1/responses", { max_output_tokens: 5, n_predict: 900 }, { max_output_tokens: 5 }],
  ["/v1/messages", { max_tokens: 5, n_predict: 900 }, { max_tokens: 5 }],
  [CHAT, { n: 2, n_cmpl: 100 }, { n: 100 }],
  [CHAT, { n_cmpl: null, n_predict: null, max_tokens: 5 }, { max_tokens: 5 }],
  [CHAT, { max_tokens: 5, n: 2 }, { max_tokens: 5, n: 2 }],
])("%s: %j has the usual names", (path, given, expected) => {
  const { bytes, body } = withUsualNames(path, Buffer.from(JSON.stringify(given)), given);
  expect(JSON.parse(bytes.toString())).toEqual(expected);
  expect(JSON.parse(JSON.stringify(body))).toEqual(expected);
});
