/**
 * Finds mistakes that involve several values: duplicate names, keys that exclude each other, models without instances.
 */
import { ADMIN_NAME } from "../../core/sign-in/roles.js";
import { isCanaryName } from "../../gateway/canary/canary-name.js";
import type { Finding } from "./problems.js";
import { attachmentConflicts } from "./provider-conflicts.js";
import type { FleetConfig, ModelEntry } from "./schema.js";
import { orgOfTeam } from "./sections/budgets.js";
import { operatorsOf } from "./sections/operators.js";

type Path = Finding["path"];

const conflict = (path: Path, message: string, hint: string): Finding => ({
  code: "config_conflict",
  path,
  message,
  hint,
});

function duplicateNames({ models, routes, cascades }: FleetConfig): Finding[] {
  const owners = new Map<string, string>();
  const findings: Finding[] = [];
  const claim = (name: string, owner: string, path: Path): void => {
    if (isCanaryName(name)) {
      const message = `expected a name that is no canary's, got ${JSON.stringify(name)}`;
      findings.push(conflict(path, message, "let it end otherwise than in ~canary"));
    }
    const first = owners.get(name);
    if (first === undefined) owners.set(name, owner);
    else
      findings.push(
        conflict(path, `expected each name once, got ${JSON.stringify(name)} for ${first} too`, "give it another name"),
      );
  };
  const named = { models, routes, cascades };
  for (const [key, all] of Object.entries(named)) {
    for (const [index, { name }] of all.entries()) claim(name, `${key}[${index}]`, [key, index, "name"]);
  }
  for (const [key, all] of Object.entries(named)) {
    for (const [index, { aliases }] of all.entries()) {
      for (const [i, alias] of aliases.entries()) claim(alias, `${key}[${index}]`, [key, index, "aliases", i]);
    }
  }
  return findings;
}

const namesIn = (all: readonly { readonly name: string; readonly aliases: readonly string[] }[]): string[] =>
  all.flatMap(({ name, aliases }) => [name, ...aliases]);

function unknownName(name: string, known: readonly string[], path: Path): Finding[] {
  if (known.includes(name)) return [];
  const message = `expected one of ${known.join(", ")}, got ${JSON.stringify(name)}`;
  return [conflict(path, message, "a target is a model, and of a route also a cascade")];
}

/** Cascades of names that are not models, and cascades without a judge. */
function cascadeConflicts({ models, cascades }: FleetConfig): Finding[] {
  const known = namesIn(models);
  return cascades.flatMap(({ small, large, router, minLogprob, agreement, audit }, index) => {
    const at: Path = ["cascades", index];
    const findings = [
      ...unknownName(small, known, [...at, "small"]),
      ...unknownName(large, known, [...at, "large"]),
      ...(audit.judge === undefined ? [] : unknownName(audit.judge, known, [...at, "audit", "judge"])),
    ];
    if (small === large) {
      findings.push(conflict([...at, "large"], "expected another model than `small`, got the same", "name two models"));
    }
    if (router === undefined && minLogprob === undefined && agreement === undefined) {
      const hint = "train a router with millrace route train";
      findings.push(conflict(at, "expected router, min-logprob or agreement, got none", hint));
    }
    return findings;
  });
}

/** Targets that are not models, and rules in which no target has a weight. */
function routeConflicts({ models, routes, cascades }: FleetConfig): Finding[] {
  const known = [...namesIn(models), ...namesIn(cascades)];
  return routes.flatMap(({ rules, fallback }, index) => {
    const unknown = (name: string, path: Path): Finding[] => unknownName(name, known, ["routes", index, ...path]);
    const ofRules = rules.flatMap(({ to }, i) => [
      ...to.flatMap(({ model }, k) => unknown(model, ["rules", i, "to", k, "model"])),
      ...(to.some(({ weight }) => weight > 0)
        ? []
        : [conflict(["routes", index, "rules", i, "to"], "expected a weight above 0, got none", "raise a weight")]),
    ]);
    const ofFallbacks = Object.entries(fallback).flatMap(([errorClass, targets]) =>
      (targets ?? []).flatMap((name, k) => unknown(name, ["fallback", errorClass, k])),
    );
    return [...ofRules, ...ofFallbacks];
  });
}

function duplicateKeys({ apiKeys, adminKey, operators }: FleetConfig): Finding[] {
  const ofOperators = operators.flatMap(({ name, key }, index) => {
    const at = ["operators", index];
    const before = operators.slice(0, index);
    const isNamed = name === ADMIN_NAME || before.some((other) => other.name === name);
    const isTaken = adminKey?.equals(key) === true || before.some((other) => other.key.equals(key));
    const hint = "the audit tells operators apart by their names";
    return [
      ...(isNamed ? [conflict([...at, "name"], `expected each name once, got ${name} again`, hint)] : []),
      ...(isTaken
        ? [
            conflict(
              [...at, "key"],
              "expected each key once, got one of another operator",
              "make a separate key for each operator",
            ),
          ]
        : []),
    ];
  });
  const ofTenants = apiKeys.flatMap(({ key }, index) => {
    const path = ["api-keys", index, "key"];
    const owner = adminKey?.equals(key) ? "admin-key" : operators.find((each) => each.key.equals(key))?.name;
    if (owner !== undefined)
      return [
        conflict(path, `expected a key other than that of ${owner}, got the same`, "make a separate key for each"),
      ];
    const isTwice = apiKeys.slice(0, index).some((other) => other.key.equals(key));
    return isTwice
      ? [conflict(path, "expected each key once, got one that is listed twice", "make a separate key for each tenant")]
      : [];
  });
  return [...ofOperators, ...ofTenants];
}

function uselessKeys({ managedKeys, apiKeys, ...config }: FleetConfig): Finding[] {
  const findings: Finding[] = [];
  const hasClients = managedKeys || apiKeys.length > 0 || config.oidc !== undefined;
  if (config.conversations !== undefined && !hasClients) {
    const hint = "without keys all clients are one, and would read each other's";
    findings.push(
      conflict(["conversations"], "expected api-keys, managed-keys or oidc beside conversations, got none", hint),
    );
  }
  if (managedKeys && operatorsOf(config).every(({ role }) => role !== "admin")) {
    findings.push(
      conflict(
        ["managed-keys"],
        "expected admin-key or an operator with the role admin beside managed-keys, got none",
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

/** Engines of which the fleet can start any number of instances, each on its share of the machine. */
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
  const { model: source, attach, instances, cores, coresPerInstance, gpus, gpusPerInstance } = model;
  const findings = [...instanceConflicts(model, at), ...attachmentConflicts(model, at)];
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

function budgetConflicts({ budgets, apiKeys, teams, orgs }: FleetConfig): Finding[] {
  const findings: Finding[] = [];
  const { store, url } = budgets;
  if (store === "embedded" && url !== undefined) {
    const message = "expected redis or postgresql as the store beside url, got embedded";
    findings.push(conflict(["budgets", "url"], message, "set store, or leave url out"));
  }
  if (store !== "embedded" && url === undefined) {
    findings.push(conflict(["budgets", "store"], `expected url beside ${store}, got none`, "set url to its address"));
  }
  for (const [index, { team }] of apiKeys.entries()) {
    const isKnown = team === undefined || Object.hasOwn(teams, team) || Object.hasOwn(orgs, orgOfTeam(team));
    if (isKnown) continue;
    const message = `expected a team of teams, or of an organisation of orgs, got ${team}`;
    findings.push(conflict(["api-keys", index, "team"], message, "list the team under teams, with its limits or {}"));
  }
  return findings;
}

/** Alerts and feedback need the ledger: its hours, and the request that the feedback is about. */
function missingLedger({ ledger, ...config }: FleetConfig): Finding[] {
  if (ledger !== undefined) return [];
  return (["alerts", "quality"] as const).flatMap((key) =>
    config[key] === undefined
      ? []
      : [conflict([key], `expected ledger beside ${key}, got none`, `add \`ledger: {}\`, which ${key} needs`)],
  );
}

function halfCertificate({ sslCertfile, sslKeyfile }: FleetConfig): Finding[] {
  if ((sslCertfile === undefined) === (sslKeyfile === undefined)) return [];
  const [given, missing] =
    sslKeyfile === undefined ? (["ssl-certfile", "ssl-keyfile"] as const) : (["ssl-keyfile", "ssl-certfile"] as const);
  return [conflict([given], `expected ${missing} beside ${given}, got none`, `add ${missing}, or leave both out`)];
}

export function conflictsIn(config: FleetConfig): Finding[] {
  return [
    ...duplicateNames(config),
    ...uselessKeys(config),
    ...emptyGuardrails(config),
    ...duplicateKeys(config),
    ...budgetConflicts(config),
    ...unknownRegions(config),
    ...storeConflicts(config),
    ...routeConflicts(config),
    ...cascadeConflicts(config),
    ...missingLedger(config),
    ...halfCertificate(config),
    ...config.models.flatMap(modelConflicts),
  ];
}
