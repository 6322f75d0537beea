/** Finds mistakes in the keys for attached servers and paid APIs. */
import { isLoopback } from "../../core/loopback.js";
import { defaultUrl, PROVIDER_ENGINES, type ProviderEngine } from "../../gateway/dialects/provider.js";
import type { Finding } from "./problems.js";
import type { ModelEntry } from "./schema.js";
import type { Attachment } from "./sections/provider.js";

type Path = Finding["path"];

function conflict(path: Path, message: string, hint: string): Finding {
  return { code: "config_conflict", path, message, hint };
}

export function isProviderEngine(engine: ModelEntry["engine"]): engine is ProviderEngine {
  return (PROVIDER_ENGINES as readonly string[]).includes(engine);
}

/** Whether the fleet checks a server's health. An API on the internet is paid for, or belongs to somebody else. */
export function isProbed(engine: ModelEntry["engine"], { url, probe }: Attachment): boolean {
  if (!isProviderEngine(engine)) return true;
  if (engine !== "openai" || url === undefined) return false;
  // The health check asks for /v1 of the address.
  return probe ?? (url.startsWith("http:") && new URL(url).pathname === "/");
}

/** @param at path of the model */
export function attachmentConflicts(model: ModelEntry, at: Path): Finding[] {
  const { engine, attach, model: source } = model;
  const findings = attach.flatMap((each, index) => conflictsOfOne(engine, each, [...at, "attach", index]));
  if (isProviderEngine(engine) && source !== undefined) {
    findings.push(
      conflict(
        [...at, "model"],
        `expected attach only for the engine ${engine}, got model`,
        "name the engine to start, or the model as model-name",
      ),
    );
  }
  return [...findings, ...batchConflicts(model, at), ...responsesConflicts(model, at)];
}

function batchConflicts({ engine, attach, provider }: ModelEntry, at: Path): Finding[] {
  if (!provider.batchEndpoint) return [];
  const isPaid = (engine === "openai" || engine === "anthropic") && !attach.some((each) => isProbed(engine, each));
  if (isPaid && attach.length > 0) return [];
  const got = isPaid ? "no server to attach to" : `the engine ${engine}${engine === "openai" ? " with a probe" : ""}`;
  return [
    conflict(
      [...at, "provider", "batch-endpoint"],
      `expected a paid API of openai or anthropic, whose batch endpoint takes lines, got ${got}`,
      "leave it out: the gateway then runs each line as a request",
    ),
  ];
}

function responsesConflicts({ engine, attach, provider }: ModelEntry, at: Path): Finding[] {
  if (provider.responses === "pass") return [];
  const isPaid = isProviderEngine(engine) && !attach.some((each) => isProbed(engine, each));
  if (isPaid) return [];
  return [
    conflict(
      [...at, "provider", "responses"],
      `expected pass for an engine of your own, got translate for ${engine}${isProviderEngine(engine) ? " with a probe" : ""}`,
      "with engine: openai and probe: false the server is asked as a paid API is",
    ),
  ];
}

function conflictsOfOne(engine: ModelEntry["engine"], each: Attachment, at: Path): Finding[] {
  if (!isProviderEngine(engine)) return engineConflicts(engine, each, at);
  const findings: Finding[] = [];
  const { url, apiKey, accessKeyId, secretAccessKey, awsRegion, probe } = each;
  const address = url ?? defaultUrl(engine, awsRegion);
  if (address === undefined) {
    const wanted = engine === "bedrock" ? "aws-region" : "url";
    findings.push(
      conflict(
        at,
        `expected ${wanted} for ${engine}, got none`,
        engine === "azure"
          ? "write https://RESOURCE.openai.azure.com"
          : "name the region of the models, such as us-east-1",
      ),
    );
  }
  if (engine !== "openai" && probe === true) {
    findings.push(
      conflict(
        [...at, "probe"],
        `expected no probe of ${engine}, got one`,
        "a paid API is ready unless requests to it fail",
      ),
    );
  }
  if (engine === "openai" && probe === true && (url === undefined || new URL(url).pathname !== "/")) {
    findings.push(
      conflict([...at, "probe"], "expected an address without a path for probes, got another", "leave probe out"),
    );
  }
  const isSigned = accessKeyId !== undefined || secretAccessKey !== undefined || each.sessionToken !== undefined;
  if (
    isSigned &&
    (engine !== "bedrock" || accessKeyId === undefined || secretAccessKey === undefined || awsRegion === undefined)
  ) {
    findings.push(
      conflict(
        at,
        "expected access-key-id, secret-access-key and aws-region together, for bedrock, got some of them",
        "complete them, or use api-key",
      ),
    );
  }
  if (engine !== "openai" && apiKey === undefined && !isSigned) {
    findings.push(conflict(at, `expected api-key for ${engine}, got none`, "write api-key: env:NAME"));
  }
  const isGuarded = address === undefined || !address.startsWith("http:") || isLoopback(new URL(address).hostname);
  if (engine !== "openai" && !isGuarded) {
    findings.push(
      conflict(
        [...at, "url"],
        `expected an https address for ${engine}, got an http one`,
        "the key would cross the network in the clear",
      ),
    );
  }
  return findings;
}

/** Refuses settings that only paid APIs have. */
function engineConflicts(engine: string, { url, ...each }: Attachment, at: Path): Finding[] {
  const findings: Finding[] = [];
  if (url === undefined)
    findings.push(conflict(at, `expected the url of a ${engine} to attach to, got none`, "write its address"));
  else if (new URL(url).pathname !== "/") {
    findings.push(
      conflict(
        [...at, "url"],
        `expected an address without a path for ${engine}, got one`,
        "its API is under /v1 of the address",
      ),
    );
  }
  const { maxConcurrency, probe, awsRegion, accessKeyId, secretAccessKey, sessionToken } = each;
  const foreign = {
    "max-concurrency": maxConcurrency,
    probe,
    "aws-region": awsRegion,
    "access-key-id": accessKeyId,
    "secret-access-key": secretAccessKey,
    "session-token": sessionToken,
  };
  for (const [key, value] of Object.entries(foreign)) {
    if (value !== undefined)
      findings.push(
        conflict([...at, key], `expected ${key} for a paid API only, got it for ${engine}`, "leave it out"),
      );
  }
  return findings;
}
