/**
 * Bedrock's Converse and Claude's InvokeModel, with signatures and binary event streams. The signature is computed from
 * AWS's description, apart from src.
 */
import { createHash, createHmac } from "node:crypto";
import { crc32 } from "node:zlib";
import { z } from "zod";
import { checkMessages, messageEvents, messagesFields, messagesSaid, wholeMessage } from "./anthropic-server.js";
import {
  checked,
  type ProviderAsked,
  type ProviderServer,
  Refusal,
  type Reply,
  type Said,
  saidTo,
  startProviderServer,
} from "./provider-server.js";

const point = z.strictObject({ cachePoint: z.strictObject({ type: z.literal("default") }) });
const text = z.strictObject({ text: z.string().min(1) });
const image = z.strictObject({
  image: z.strictObject({
    format: z.enum(["png", "jpeg", "gif", "webp"]),
    source: z.strictObject({ bytes: z.base64() }),
  }),
});
const toolId = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/);
const use = z.strictObject({
  toolUse: z.strictObject({ toolUseId: toolId, name: z.string(), input: z.looseObject({}) }),
});
const result = z.strictObject({
  toolResult: z.strictObject({
    toolUseId: toolId,
    content: z.array(z.union([text, image, z.strictObject({ json: z.looseObject({}) })])).min(1),
    status: z.enum(["success", "error"]).optional(),
  }),
});
const reasoning = z.strictObject({
  reasoningContent: z.strictObject({
    reasoningText: z.strictObject({ text: z.string(), signature: z.string().min(1) }),
  }),
});
const block = z.union([text, image, use, result, reasoning, point]);
const request = z.strictObject({
  messages: z.array(z.strictObject({ role: z.enum(["user", "assistant"]), content: z.array(block).min(1) })).min(1),
  system: z.array(z.union([text, point])).optional(),
  inferenceConfig: z
    .strictObject({
      maxTokens: z.int().min(1).optional(),
      temperature: z.number().min(0).max(1).optional(),
      topP: z.number().min(0).max(1).optional(),
      stopSequences: z.array(z.string().min(1)).optional(),
    })
    .optional(),
  toolConfig: z
    .strictObject({
      tools: z
        .array(
          z.union([
            z.strictObject({
              toolSpec: z.strictObject({
                name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
                description: z.string().min(1).optional(),
                inputSchema: z.strictObject({ json: z.looseObject({ type: z.literal("object") }) }),
                strict: z.boolean().optional(),
              }),
            }),
            point,
          ]),
        )
        .min(1),
      toolChoice: z
        .union([
          z.strictObject({ auto: z.strictObject({}) }),
          z.strictObject({ any: z.strictObject({}) }),
          z.strictObject({ tool: z.strictObject({ name: z.string() }) }),
        ])
        .optional(),
    })
    .optional(),
  additionalModelRequestFields: z.looseObject({}).optional(),
  outputConfig: z
    .strictObject({
      textFormat: z.strictObject({
        type: z.literal("json_schema"),
        structure: z.strictObject({ jsonSchema: z.strictObject({ schema: z.string(), name: z.string().optional() }) }),
      }),
    })
    .optional(),
});
const invoke = z.strictObject({
  anthropic_version: z.literal("bedrock-2023-05-31"),
  anthropic_beta: z.array(z.string()).optional(),
  ...messagesFields,
});

const exception = (status: number, type: string, message: string): Reply => ({
  status,
  headers: {
    "x-amzn-errortype": `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
    "x-amzn-requestid": "7f9c1d7e-2f5a-4a7e",
  },
  body: { message },
});

interface BedrockCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly sessionToken?: string;
}

/** @param apiKey of Bedrock's own, accepted beside signatures */
export function startBedrockServer(
  credentials: BedrockCredentials,
  apiKey = "ABSKQmVkcm9ja0FQSUtleQ",
): Promise<ProviderServer> {
  return startProviderServer((asked) => {
    if (asked.headers.authorization !== `Bearer ${apiKey}`) verifySignature(asked, credentials);
    const match = /^\/model\/([^/]+)\/(converse|converse-stream|invoke|invoke-with-response-stream|count-tokens)$/.exec(
      asked.url,
    );
    if (match === null) throw new Refusal(exception(404, "UnknownOperationException", "no such operation"));
    const model = decodeURIComponent(match[1]!);
    if (!/^(?:us\.)?(?:anthropic|amazon)\.[\w.-]+(?::\d+)?$/.test(model))
      throw new Refusal(exception(400, "ValidationException", "The provided model identifier is invalid."));
    if (match[2] === "count-tokens") return counted(asked);
    if (match[2]!.startsWith("invoke")) return invoked(asked, match[2] !== "invoke");
    const parsed = checked(request, asked.body, (path, message) =>
      exception(400, "ValidationException", `${message} at ${path}`),
    );
    checkOrder(parsed);
    const said = converseSaid(parsed);
    if (match[2] === "converse") return { body: whole(said) };
    return { headers: STREAM, body: streamed(said) };
  });
}

const STREAM = { "content-type": "application/vnd.amazon.eventstream" };

const countable = request.omit({ inferenceConfig: true, outputConfig: true });
const count = z.strictObject({
  input: z.union([
    z.strictObject({ converse: countable }),
    z.strictObject({ invokeModel: z.strictObject({ body: z.base64() }) }),
  ]),
});

function counted({ body }: ProviderAsked): Reply {
  const { input } = checked(count, body, (path, message) =>
    exception(400, "ValidationException", `${path}: ${message}`),
  );
  if ("converse" in input) checkOrder(input.converse);
  else {
    const own: unknown = JSON.parse(Buffer.from(input.invokeModel.body, "base64").toString());
    checkMessages(
      checked(invoke, own, (path, message) => exception(400, "ValidationException", `${path}: ${message}`)),
    );
  }
  return { body: { inputTokens: 16 } };
}

function invoked({ body }: ProviderAsked, isStream: boolean): Reply {
  const parsed = checked(invoke, body, (path, message) => exception(400, "ValidationException", `${path}: ${message}`));
  checkMessages(parsed);
  const said = messagesSaid(parsed);
  if (!isStream) return { body: wholeMessage(said) };
  const chunks = messageEvents(said).map((event) => {
    const bytes = Buffer.from(JSON.stringify(event)).toString("base64");
    return awsFrame(
      { ":event-type": "chunk", ":content-type": "application/json", ":message-type": "event" },
      { bytes, p: "abcdefgh" },
    );
  });
  return { headers: STREAM, body: chunks };
}

function checkOrder({ messages, toolConfig }: z.output<typeof request>): void {
  if (messages[0]!.role !== "user")
    throw new Refusal(exception(400, "ValidationException", "A conversation must start with a user message."));
  for (const [i, { role, content }] of messages.entries()) {
    if (i > 0 && messages[i - 1]!.role === role)
      throw new Refusal(
        exception(400, "ValidationException", `messages.${i}: roles must alternate between "user" and "assistant"`),
      );
    const uses = content.flatMap((each) => ("toolUse" in each ? [each.toolUse.toolUseId] : []));
    const results = (messages[i + 1]?.content ?? []).flatMap((each) =>
      "toolResult" in each ? [each.toolResult.toolUseId] : [],
    );
    if (messages[i + 1] !== undefined && uses.length !== results.filter((each) => uses.includes(each)).length) {
      throw new Refusal(
        exception(
          400,
          "ValidationException",
          `Expected toolResult blocks at messages.${i + 1}.content for the following Ids: ${uses}`,
        ),
      );
    }
    if (uses.length > 0 && toolConfig === undefined)
      throw new Refusal(
        exception(
          400,
          "ValidationException",
          "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ),
      );
  }
}

function converseSaid({ messages, toolConfig, additionalModelRequestFields: more }: z.output<typeof request>): Said {
  const { content } = messages.at(-1)!;
  const lastText = content.map((each) => ("text" in each ? each.text : "")).join(" ");
  const [first] = toolConfig?.tools ?? [];
  const said = saidTo(
    lastText,
    content.some((each) => "toolResult" in each),
    first !== undefined && "toolSpec" in first ? first.toolSpec.name : undefined,
  );
  return more?.thinking === undefined ? { ...said, thoughts: [] } : said;
}

const USAGE = { inputTokens: 12, outputTokens: 9, totalTokens: 33, cacheReadInputTokens: 8, cacheWriteInputTokens: 4 };
const SIGNATURE = "EqoBCkgIARABGAIiQL2UoU0b1OHYi";

function whole({ texts, thoughts, calls }: Said): object {
  const content = [
    ...(thoughts.length === 0
      ? []
      : [{ reasoningContent: { reasoningText: { text: thoughts.join(""), signature: SIGNATURE } } }]),
    ...(texts.length === 0 ? [] : [{ text: texts.join("") }]),
    ...calls.map(({ id, name, pieces }) => ({
      toolUse: { toolUseId: `tooluse_${id}`, name, input: JSON.parse(pieces.join("")) },
    })),
  ];
  return {
    output: { message: { role: "assistant", content } },
    stopReason: calls.length > 0 ? "tool_use" : "end_turn",
    usage: USAGE,
    metrics: { latencyMs: 551 },
  };
}

function streamed({ texts, thoughts, calls }: Said): Buffer[] {
  const frames: Buffer[] = [];
  const send = (name: string, payload: object) =>
    frames.push(
      awsFrame({ ":event-type": name, ":content-type": "application/json", ":message-type": "event" }, payload),
    );
  send("messageStart", { p: "abc", role: "assistant" });
  let contentBlockIndex = 0;
  const blockOf = (start: object | undefined, deltas: readonly object[]) => {
    // Text has no start.
    if (start !== undefined) send("contentBlockStart", { contentBlockIndex, start });
    for (const delta of deltas) send("contentBlockDelta", { contentBlockIndex, delta, p: "ab" });
    send("contentBlockStop", { contentBlockIndex: contentBlockIndex++, p: "a" });
  };
  if (thoughts.length > 0)
    blockOf(undefined, [
      ...thoughts.map((each) => ({ reasoningContent: { text: each } })),
      { reasoningContent: { signature: SIGNATURE } },
    ]);
  if (texts.length > 0)
    blockOf(
      undefined,
      texts.map((each) => ({ text: each })),
    );
  for (const { id, name, pieces } of calls)
    blockOf(
      { toolUse: { toolUseId: `tooluse_${id}`, name } },
      pieces.map((input) => ({ toolUse: { input } })),
    );
  send("messageStop", { p: "abcd", stopReason: calls.length > 0 ? "tool_use" : "end_turn" });
  send("metadata", { metrics: { latencyMs: 772 }, p: "ab", usage: USAGE });
  return frames;
}

/** A frame of an event stream: lengths, their checksum, headers, payload, checksum of all. */
export function awsFrame(headers: Readonly<Record<string, string>>, payload: object | Buffer): Buffer {
  const written = Object.entries(headers).map(([name, value]) => {
    const bytes = Buffer.alloc(4 + Buffer.byteLength(name) + Buffer.byteLength(value));
    let at = bytes.writeUInt8(Buffer.byteLength(name), 0);
    at += bytes.write(name, at);
    at = bytes.writeUInt8(7, at);
    at = bytes.writeUInt16BE(Buffer.byteLength(value), at);
    bytes.write(value, at);
    return bytes;
  });
  const head = Buffer.concat(written);
  const body = Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload));
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + head.length + body.length, 0);
  prelude.writeUInt32BE(head.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const most = Buffer.concat([prelude, head, body]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(most), 0);
  return Buffer.concat([most, checksum]);
}

const hex = (data: Buffer | string) => createHash("sha256").update(data).digest("hex");

function verifySignature(
  { method, url, headers, raw }: ProviderAsked,
  { accessKeyId, secretAccessKey, region, sessionToken }: BedrockCredentials,
): void {
  const form =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/bedrock\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/;
  const match = form.exec(headers.authorization ?? "");
  if (match === null)
    throw new Refusal(exception(403, "MissingAuthenticationTokenException", "Missing Authentication Token"));
  const [, keyId, day, signedRegion, names, signature] = match;
  const time = headers["x-amz-date"] as string;
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  const isCurrent = Math.abs(Date.now() - at) < 300_000 && time.startsWith(day!);
  const signed = names!.split(";");
  const needed = ["host", "x-amz-date", ...(sessionToken === undefined ? [] : ["x-amz-security-token"])];
  const path = url
    .split("?")[0]!
    .split("/")
    .map((each) => encodeURIComponent(each))
    .join("/");
  const lines = signed.map((name) => `${name}:${String(headers[name]).trim()}\n`).join("");
  const canonical = `${method}\n${path}\n\n${lines}\n${names}\n${hex(raw)}`;
  const toSign = `AWS4-HMAC-SHA256\n${time}\n${day}/${region}/bedrock/aws4_request\n${hex(canonical)}`;
  let key: Buffer | string = `AWS4${secretAccessKey}`;
  for (const part of [day!, region, "bedrock", "aws4_request"]) key = createHmac("sha256", key).update(part).digest();
  const expected = createHmac("sha256", key).update(toSign).digest("hex");
  if (keyId !== accessKeyId || headers["x-amz-security-token"] !== sessionToken) {
    throw new Refusal(
      exception(403, "UnrecognizedClientException", "The security token included in the request is invalid."),
    );
  }
  if (
    !isCurrent ||
    signedRegion !== region ||
    needed.some((each) => !signed.includes(each)) ||
    expected !== signature
  ) {
    throw new Refusal(
      exception(
        403,
        "InvalidSignatureException",
        `The request signature we calculated does not match. The Canonical String for this request should have been '${canonical}'`,
      ),
    );
  }
}
