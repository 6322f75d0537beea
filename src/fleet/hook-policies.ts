/** Makes the policies of `hooks` from the configuration. */
import { Checker } from "../gateway/hooks/checker.js";
import type { Guard } from "../gateway/hooks/guard.js";
import { Guardrails } from "../gateway/hooks/guardrails.js";
import { compilePatterns } from "../gateway/hooks/pattern-set.js";
import { personalDataPatterns } from "../gateway/hooks/personal-data.js";
import { matchesGlob } from "../gateway/tenants/model-globs.js";
import type { GuardrailConfig } from "./config/sections/hooks.js";
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
