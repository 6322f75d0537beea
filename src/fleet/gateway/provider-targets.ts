/** The address of an attached server, and a paid API's form of requests. */

import { defaultUrl, type Provider } from "../../gateway/dialects/provider.js";
import { isProbed, isProviderEngine } from "../config/provider-conflicts.js";
import type { ModelEntry } from "../config/schema.js";
import type { Attachment } from "../config/sections/provider.js";
import type { UpstreamTarget } from "../upstream/upstream.js";

type Address = Pick<UpstreamTarget, "url" | "apiKey" | "provider" | "maxConcurrency">;

export function targetOf({ engine, provider: asked }: ModelEntry, each: Attachment): Address {
  const { maxConcurrency } = each;
  const apiKey = each.apiKey?.reveal();
  // The checked configuration has an address for every engine without a default one.
  const { origin, pathname } = new URL(
    (each.url ?? (isProviderEngine(engine) ? defaultUrl(engine, each.awsRegion) : undefined))!,
  );
  const path = pathname.replace(/\/+$/, "");
  if (!isProviderEngine(engine) || isProbed(engine, each)) return { url: origin, apiKey };
  const isOpenaiItself = engine === "azure" || origin === "https://api.openai.com";
  const provider: Provider = {
    engine,
    basePath: engine === "openai" && path === "" ? "/v1" : path,
    maxTokensName: isOpenaiItself ? "max_completion_tokens" : "max_tokens",
    apiKey,
    aws: awsOf(each),
    bedrockApi: asked.bedrockApi,
    apiVersion: asked.apiVersion,
    thinking: asked.thinking,
    responses: asked.responses,
    dropsParams: asked.dropParams,
    defaultMaxTokens: asked.defaultMaxTokens,
  };
  return { url: origin, apiKey, provider, ...(maxConcurrency === undefined ? {} : { maxConcurrency }) };
}

function awsOf({ awsRegion, accessKeyId, secretAccessKey, sessionToken }: Attachment): Provider["aws"] {
  if (awsRegion === undefined || accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return {
    region: awsRegion,
    accessKeyId: accessKeyId.reveal(),
    secretAccessKey: secretAccessKey.reveal(),
    sessionToken: sessionToken?.reveal(),
  };
}
