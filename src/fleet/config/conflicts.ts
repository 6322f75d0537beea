/** Finds mistakes that involve several values: duplicate names, keys that exclude each other, models without instances. */
import type { Finding } from "./problems.js";
import type { FleetConfig, ModelEntry } from "./schema.js";

type Path = Finding["path"];

const conflict = (path: Path, message: string, hint: string): Finding => ({
  code: "config_conflict",
  path,
  message,
  hint,
});

function duplicateNames({ models }: FleetConfig): Finding[] {
  const owners = new Map<string, number>();
  const findings: Finding[] = [];
  const claim = (name: string, index: number, path: Path): void => {
    const owner = owners.get(name);
    if (owner === undefined) owners.set(name, index);
    else
      findings.push(
        conflict(
          path,
          `expected each name once, got ${JSON.stringify(name)} for models[${owner}] too`,
          "give it another name",
        ),
      );
  };
  for (const [index, { name }] of models.entries()) claim(name, index, ["models", index, "name"]);
  for (const [index, { aliases }] of models.entries()) {
    for (const [i, alias] of aliases.entries()) claim(alias, index, ["models", index, "aliases", i]);
  }
  return findings;
}

function duplicateKeys({ apiKeys, adminKey }: FleetConfig): Finding[] {
  return apiKeys.flatMap(({ key }, index) => {
    const path = ["api-keys", index, "key"];
    if (adminKey?.equals(key))
      return [
        conflict(
          path,
          "expected a key other than admin-key, got the same",
          "make a separate key for the administrator",
        ),
      ];
    const isTwice = apiKeys.slice(0, index).some((other) => other.key.equals(key));
    return isTwice
      ? [conflict(path, "expected each key once, got one that is listed twice", "make a separate key for each tenant")]
      : [];
  });
}

function uselessKeys({ managedKeys, adminKey, apiKeys }: FleetConfig): Finding[] {
  const findings: Finding[] = [];
  if (managedKeys && adminKey === undefined) {
    findings.push(
      conflict(
        ["managed-keys"],
        "expected admin-key beside managed-keys, got none",
        "nobody could make a key without it",
      ),
    );
  }
  for (const [index, { tenant }] of apiKeys.entries()) {
    if (!RESERVED_TENANT.test(tenant)) continue;
    const message = `expected a tenant that does not begin with org: or oidc:, got ${tenant}`;
    findings.push(conflict(["api-keys", index, "tenant"], message, "such names stand for organisations"));
  }
  return findings;
}

function emptyGuardrails({ hooks }: FleetConfig): Finding[] {
  return hooks.guardrails.flatMap(({ name, find, patterns, checker, action }, index) => {
    const path = ["hooks", "guardrails", index];
    if (find.length + patterns.length === 0 && checker === undefined) {
      const message = `expected find, patterns or checker for ${name}, got none of them`;
      return [conflict(path, message, "say what it looks for")];
    }
    if (action !== "redact" || checker === undefined) return [];
    const hint = "redact replaces what patterns find; put the checker into a guardrail of its own";
    return [conflict([...path, "action"], `expected refuse or flag beside checker for ${name}, got redact`, hint)];
  });
}

const RESERVED_TENANT = /^(org|oidc):/;

function unknownRegions({ regions, models }: FleetConfig): Finding[] {
  return models.flatMap(({ attach }, index) =>
    attach.flatMap(({ region }, i) =>
      region === undefined || regions.includes(region)
        ? []
        : [
            conflict(
              ["models", index, "attach", i, "region"],
              `expected one of \`regions\`, got ${JSON.stringify(region)}`,
              "list it in `regions`, nearest first",
            ),
          ],
    ),
  );
}

function storeConflicts({ cache }: FleetConfig): Finding[] {
  if (cache === undefined || (cache.store === "redis") === (cache.redisUrl !== undefined)) return [];
  return cache.store === "redis"
    ? [
        conflict(
          ["cache", "store"],
          "expected redis-url beside the store redis, got none",
          "add redis-url: env:REDIS_URL",
        ),
      ]
    : [
        conflict(
          ["cache", "redis-url"],
          `expected the store redis, got ${cache.store}`,
          "set store: redis, or leave redis-url out",
        ),
      ];
}

/** Engines whose instances the fleet can start in any number, each on its share of the machine. */
const MEASURED: readonly ModelEntry["engine"][] = ["millrace", "vllm", "sglang", "llama-server"];

function instanceConflicts(model: ModelEntry, at: Path): Finding[] {
  const { instances, load, engine, attach } = model;
  const path = [...at, "instances"];
  const findings: Finding[] = [];
  if (typeof instances === "object" && instances.min > instances.max) {
    findings.push(
      conflict(path, `expected max of at least min ${instances.min}, got ${instances.max}`, "swap the two"),
    );
  }
  if (instances === "auto" && !MEASURED.includes(engine)) {
    findings.push(conflict(path, `expected a number for ${engine}, got auto`, `auto measures ${MEASURED.join(", ")}`));
  }
  if (typeof instances === "object" && instances.min === 0 && load === "always") {
    findings.push(
      conflict([...at, "load"], "expected on-demand where min is 0, got always", "leave load out, or raise min"),
    );
  }
  if (instances === 0 && attach.length === 0) {
    findings.push(
      conflict(path, "expected at least one instance, got 0", "write {min: 0, max: 1} to load the model on demand"),
    );
  }
  return findings;
}

function modelConflicts(model: ModelEntry, index: number): Finding[] {
  const at: Path = ["models", index];
  const { engine, model: source, attach, instances, cores, coresPerInstance, gpus, gpusPerInstance } = model;
  const findings = instanceConflicts(model, at);
  const isAttachedOnly = attach.length > 0 && source === undefined;
  if (source === undefined && attach.length === 0) {
    findings.push(
      conflict(
        at,
        `expected model or attach for ${JSON.stringify(model.name)}, got neither`,
        "set model to the file to load, or attach to running servers",
      ),
    );
  }
  if (isAttachedOnly && instances !== undefined && instances !== 0) {
    findings.push(
      conflict(
        [...at, "instances"],
        "expected model beside instances, got attach only",
        "set model to the file that the instances load, or leave instances out",
      ),
    );
  }
  if (engine === "openai" && source !== undefined) {
    findings.push(
      conflict([...at, "model"], "expected attach only for the engine openai, got model", "name the engine to start"),
    );
  }
  if (cores !== undefined && coresPerInstance !== undefined && coresPerInstance > cores.length) {
    findings.push(
      conflict(
        [...at, "cores-per-instance"],
        `expected at most the ${cores.length} CPUs of cores, got ${coresPerInstance}`,
        "lower it, or list more cores",
      ),
    );
  }
  if (gpusPerInstance !== undefined && gpusPerInstance > (gpus?.length ?? 0)) {
    findings.push(
      conflict(
        [...at, "gpus-per-instance"],
        `expected at most the ${gpus?.length ?? 0} GPUs of gpus, got ${gpusPerInstance}`,
        "lower it, or list more gpus",
      ),
    );
  }
  return findings;
}

export function conflictsIn(config: FleetConfig): Finding[] {
  return [
    ...duplicateNames(config),
    ...uselessKeys(config),
    ...emptyGuardrails(config),
    ...duplicateKeys(config),
    ...unknownRegions(config),
    ...storeConflicts(config),
    ...config.models.flatMap(modelConflicts),
  ];
}
