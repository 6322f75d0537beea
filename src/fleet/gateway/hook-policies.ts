/** Creates the policies of `hooks` from the configuration. */
import { join } from "node:path";
import { Checker } from "../../gateway/hooks/checker.js";
import type { Guard } from "../../gateway/hooks/guard.js";
import { Guardrails } from "../../gateway/hooks/guardrails.js";
import { Langfuse } from "../../gateway/hooks/langfuse.js";
import { LangfuseQueue } from "../../gateway/hooks/langfuse-queue.js";
import { compilePatterns } from "../../gateway/hooks/pattern-set.js";
import { personalDataPatterns } from "../../gateway/hooks/personal-data.js";
import { RecordFiles } from "../../gateway/recorder/record-files.js";
import { Recorder } from "../../gateway/recorder/recorder.js";
import { matchesGlob } from "../../gateway/tenants/model-globs.js";
import type { GuardrailConfig } from "../config/sections/hooks.js";
import type { PolicyContext } from "./policy-context.js";

type HookContext = Pick<PolicyContext, "config" | "logger"> & {
  readonly models: Pick<PolicyContext["models"], "resolve">;
};

/** @returns undefined if there are no guardrails */
export function createGuardrails({ config, models, logger }: HookContext): Guardrails | undefined {
  const { guardrails } = config().hooks;
  if (guardrails.length === 0) return undefined;
  return new Guardrails({
    guards: guardrails.map((guardrail) =>
      guardOf(guardrail, (err) => logger.warn({ err, guardrail: guardrail.name }, "a checker did not answer")),
    ),
    modelOf: (name) => models.resolve(name) ?? name,
    onFindings: ({ id: requestId, path }, findings) =>
      logger.info({ requestId, path, findings }, "guardrails found something"),
  });
}

/** @returns undefined if no records go to Langfuse */
export function createLangfuse({ config, models, logger }: HookContext): Langfuse | undefined {
  const { langfuse } = config().hooks;
  if (langfuse === undefined) return undefined;
  const { url, publicKey, secretKey, models: globs, prompts: sendsTexts, maxTextBytes, maxQueue: maxEvents } = langfuse;
  const onProblem = (err: unknown, numDropped: number) =>
    logger.warn({ err, numDropped }, "records for Langfuse are lost");
  const queue = new LangfuseQueue({
    url: url.replace(/\/+$/, ""),
    publicKey,
    secretKey: secretKey.reveal(),
    maxEvents,
    onProblem,
  });
  return new Langfuse({ queue, appliesTo: namedBy(globs, models), sendsTexts, maxTextBytes, now: () => Date.now() });
}

/** @returns undefined if requests are not recorded */
export function createRecorder({
  config,
  models,
  logger,
  metrics,
  dataFolder,
}: HookContext & Pick<PolicyContext, "dataFolder"> & { readonly metrics: RecorderMetrics }): Recorder | undefined {
  const { recorder } = config().hooks;
  if (recorder === undefined) return undefined;
  const { folder = join(dataFolder, "traffic"), models: globs, sample: share, maxBytes, keepDays } = recorder;
  let numLost = 0;
  const onLost = (count: number, err?: unknown) => {
    metrics.requestsRecorded("lost", count);
    const before = numLost;
    numLost += count;
    // Log the first loss, then each doubling.
    if (Math.floor(Math.log2(before)) < Math.floor(Math.log2(numLost)))
      logger.warn({ err, numLost, folder }, "requests could not be recorded");
  };
  const files = new RecordFiles({
    folder,
    maxBytes,
    keepMs: keepDays * MS_PER_DAY,
    now: () => Date.now(),
    onWritten: (count) => metrics.requestsRecorded("written", count),
    onLost,
  });
  return new Recorder({
    files,
    appliesTo: namedBy(globs, models),
    share,
    sessionHeader: () => config().routing.sessionHeader,
    onLost: () => onLost(1),
    random: Math.random,
    now: () => Date.now(),
  });
}

type RecorderMetrics = Pick<PolicyContext["metrics"], "requestsRecorded">;
const MS_PER_DAY = 86_400_000;

/** Whether the patterns match a model's name, as the client writes it or its own. */
function namedBy(globs: readonly string[], models: HookContext["models"]): (name: string) => boolean {
  const isNamed = (name: string) => globs.some((glob) => matchesGlob(glob, name));
  return (name) => isNamed(name) || isNamed(models.resolve(name) ?? name);
}

function guardOf(config: GuardrailConfig, onProblem: (thrown: unknown) => void): Guard {
  const { name, models, paths, on, find, patterns, checker, action } = config;
  const sources = [
    ...personalDataPatterns(find),
    ...patterns.map(({ name: pattern, regex, wholeWord, ignoreCase }) => ({
      name: pattern,
      regex,
      isWholeWord: wholeWord,
      ignoresCase: ignoreCase,
    })),
  ];
  const isNamed = (globs: readonly string[], text: string) => globs.some((glob) => matchesGlob(glob, text));
  return {
    name,
    stages: new Set(on),
    appliesTo: (model, path) => isNamed(models, model) && isNamed(paths, path),
    action,
    patterns: sources.length === 0 ? undefined : compilePatterns(sources),
    checker:
      checker === undefined
        ? undefined
        : new Checker({
            name,
            url: checker.url,
            headers: checker.apiKey === undefined ? {} : { authorization: `Bearer ${checker.apiKey.reveal()}` },
            timeoutMs: checker.timeout,
            onFailure: checker.onFailure,
            onProblem,
          }),
  };
}
