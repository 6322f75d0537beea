/** Google's generateContent and streamGenerateContent. */
import { z } from "zod";
import {
  checked,
  type ProviderServer,
  Refusal,
  type Reply,
  type Said,
  saidTo,
  startProviderServer,
} from "./provider-server.js";

const functionCall = z.strictObject({
  id: z.string().optional(),
  name: z.string(),
  args: z.looseObject({}).optional(),
});
const functionResponse = z.strictObject({ id: z.string().optional(), name: z.string(), response: z.looseObject({}) });
const part = z
  .strictObject({
    text: z.string().optional(),
    thought: z.boolean().optional(),
    thoughtSignature: z.string().optional(),
    inlineData: z.strictObject({ mimeType: z.string(), data: z.base64() }).optional(),
    functionCall: functionCall.optional(),
    functionResponse: functionResponse.optional(),
  })
  .refine(
    (value) =>
      [value.text, value.inlineData, value.functionCall, value.functionResponse].filter((each) => each !== undefined)
        .length === 1,
    {
      message: "required oneof field 'data' must have one initialized field",
    },
  );
const request = z.strictObject({
  contents: z.array(z.strictObject({ role: z.enum(["user", "model"]), parts: z.array(part).min(1) })).min(1),
  systemInstruction: z.strictObject({ parts: z.array(z.strictObject({ text: z.string() })).min(1) }).optional(),
  tools: z
    .array(
      z.strictObject({
        functionDeclarations: z.array(
          z.strictObject({
            name: z.string().regex(/^[a-zA-Z_][\w.:-]{0,63}$/),
            description: z.string().optional(),
            parametersJsonSchema: z.looseObject({ type: z.literal("object") }).optional(),
          }),
        ),
      }),
    )
    .optional(),
  toolConfig: z
    .strictObject({
      functionCallingConfig: z.strictObject({
        mode: z.enum(["AUTO", "ANY", "NONE"]),
        allowedFunctionNames: z.array(z.string()).optional(),
      }),
    })
    .optional(),
  generationConfig: z
    .strictObject({
      maxOutputTokens: z.int().min(1).optional(),
      temperature: z.number().min(0).max(2).optional(),
      topP: z.number().min(0).max(1).optional(),
      topK: z.int().min(1).optional(),
      stopSequences: z.array(z.string()).max(5).optional(),
      seed: z.int().optional(),
      presencePenalty: z.number().min(-2).max(2).optional(),
      frequencyPenalty: z.number().min(-2).max(2).optional(),
      responseMimeType: z.enum(["text/plain", "application/json"]).optional(),
      responseJsonSchema: z.looseObject({}).optional(),
      thinkingConfig: z
        .strictObject({
          thinkingBudget: z.int().optional(),
          thinkingLevel: z.enum(["minimal", "low", "medium", "high"]).optional(),
          includeThoughts: z.boolean().optional(),
        })
        .optional(),
    })
    .optional(),
});

const error = (code: number, status: string, message: string, details: readonly object[] = []): Reply => ({
  status: code,
  body: { error: { code, message, status, ...(details.length === 0 ? {} : { details }) } },
});

export const googleLimited = (seconds: number): Reply =>
  error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", [
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${seconds}s` },
  ]);

const SIGNATURE = "CiQBVKhc7hSm4vJ0";
const UNSIGNED = "skip_thought_signature_validator";

const count = z.strictObject({
  generateContentRequest: request.extend({ model: z.string().startsWith("models/") }),
});

export function startGoogleServer({ keys }: { readonly keys: readonly string[] }): Promise<ProviderServer> {
  return startProviderServer((asked) => {
    const { url, headers, body } = asked;
    if (!keys.includes(headers["x-goog-api-key"] as string) || headers.authorization !== undefined) {
      throw new Refusal(error(400, "INVALID_ARGUMENT", `API key not valid: ${headers["x-goog-api-key"]}`));
    }
    const match = /^\/v1beta\/models\/([\w.-]+):(generateContent|streamGenerateContent\?alt=sse|countTokens)$/.exec(
      url,
    );
    if (match === null) throw new Refusal(error(404, "NOT_FOUND", "Requested entity was not found."));
    const refusal = (path: string, message: string) =>
      error(400, "INVALID_ARGUMENT", `Invalid JSON payload received. ${message}: ${path}`);
    if (match[2] === "countTokens") {
      const { generateContentRequest } = checked(count, body, refusal);
      checkContents(generateContentRequest);
      return { body: { totalTokens: 15, promptTokensDetails: [{ modality: "TEXT", tokenCount: 15 }] } };
    }
    const parsed = checked(request, body, refusal);
    checkContents(parsed);
    const last = parsed.contents.at(-1)!;
    const lastText = last.parts.map((each) => each.text ?? "").join(" ");
    const hasResult = last.parts.some((each) => each.functionResponse !== undefined);
    const said = saidTo(lastText, hasResult, parsed.tools?.[0]?.functionDeclarations[0]?.name);
    const shown = parsed.generationConfig?.thinkingConfig?.includeThoughts === true ? said : { ...said, thoughts: [] };
    if (match[2] === "generateContent") return { body: answer([...partsOf(shown)], "STOP", true) };
    return { headers: { "content-type": "text/event-stream" }, body: streamed(shown) };
  });
}

function checkContents({ contents }: z.output<typeof request>): void {
  if (contents[0]!.role !== "user" || contents.at(-1)!.role !== "user")
    throw new Refusal(
      error(400, "INVALID_ARGUMENT", "Please ensure that the conversation begins and ends with a user turn."),
    );
  for (const [i, { role, parts }] of contents.entries()) {
    const calls = parts.flatMap((each) => (each.functionCall === undefined ? [] : [each]));
    if (calls.length > 0) {
      const signature = calls[0]!.thoughtSignature;
      if (signature !== SIGNATURE && signature !== UNSIGNED)
        throw new Refusal(
          error(
            400,
            "INVALID_ARGUMENT",
            `Function call is missing a thought_signature in functionCall parts, position ${i}`,
          ),
        );
      const results = contents[i + 1]?.parts.filter((each) => each.functionResponse !== undefined) ?? [];
      if (results.length !== calls.length) {
        throw new Refusal(
          error(
            400,
            "INVALID_ARGUMENT",
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
          ),
        );
      }
      for (const [n, result] of results.entries()) {
        if (result.functionResponse!.name !== calls[n]!.functionCall!.name)
          throw new Refusal(error(400, "INVALID_ARGUMENT", "function response name does not match"));
      }
    }
    if (
      role === "user" &&
      parts.some((each) => each.functionResponse !== undefined) &&
      contents[i - 1]?.role !== "model"
    ) {
      throw new Refusal(
        error(
          400,
          "INVALID_ARGUMENT",
          "Please ensure that function response turn comes immediately after a function call turn.",
        ),
      );
    }
  }
}

function* partsOf({ texts, thoughts, calls }: Said): Generator<object> {
  for (const text of thoughts) yield { text, thought: true };
  for (const text of texts) yield { text };
  for (const [i, { name, pieces }] of calls.entries()) {
    yield {
      functionCall: { name, args: JSON.parse(pieces.join("")) },
      ...(i === 0 ? { thoughtSignature: SIGNATURE } : {}),
    };
  }
}

const USAGE = {
  promptTokenCount: 20,
  cachedContentTokenCount: 8,
  candidatesTokenCount: 7,
  thoughtsTokenCount: 2,
  totalTokenCount: 29,
};

function answer(parts: readonly object[], finishReason: string | undefined, hasAll: boolean): object {
  const candidate = {
    content: { parts, role: "model" },
    ...(finishReason === undefined ? {} : { finishReason }),
    index: 0,
  };
  const usageMetadata = hasAll ? USAGE : { promptTokenCount: 20, totalTokenCount: 20 };
  return { candidates: [candidate], usageMetadata, modelVersion: "gemini-3.5-flash", responseId: "r4nDom1d" };
}

function streamed(said: Said): string[] {
  const parts = [...partsOf(said)];
  return parts.map((each, i) => {
    const isLast = i === parts.length - 1;
    return `data: ${JSON.stringify(answer([each], isLast ? "STOP" : undefined, isLast))}\r\n\r\n`;
  });
}
