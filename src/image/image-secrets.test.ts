/** Rendered files contain no secret of a millrace.yaml, and name each variable that the machine must set. */
import { expect, test } from "vitest";
import { type Document, parseDocument } from "yaml";
import { everyConfigKey } from "../../test/helpers/every-config-key.js";
import { MillraceError } from "../core/errors.js";
import type { KeyPath } from "../fleet/config/key-paths.js";
import { secretPlacesIn } from "../fleet/config/secret-places.js";
import { type ImageTarget, TARGETS } from "./image-request.js";
import { nextSteps } from "./next-steps.js";
import { renderImage } from "./render.js";

/** Has every possible secret of a millrace.yaml, and one model first. */
const ALL = `api-keys: [{ tenant: t, key: env:API_KEY }]
admin-key: env:ADMIN_KEY
operators: [{ name: ann, role: viewer, key: env:OPERATOR_KEY }]
sign-in:
  issuer: https://login.example.com
  client-id: millrace
  client-secret: env:CLIENT_SECRET
  public-url: https://llm.example.com
  roles: { admin: [admins] }
hooks:
  guardrails:
    - { name: checked, checker: { url: "http://127.0.0.1:9000/check", api-key: env:CHECKER_KEY } }
  langfuse: { url: https://cloud.langfuse.com, public-key: pk, secret-key: env:LANGFUSE_KEY }
budgets: { store: redis, url: env:BUDGETS_URL }
cache: { store: redis, redis-url: env:CACHE_URL }
ledger: {}
alerts:
  webhook: [{ url: env:HOOK_URL, secret: env:HOOK_SECRET }]
  webhook-secret: env:HOOKS_SECRET
models:
  - name: m
    engine: vllm
    model: org/m
    options: { max-num-seqs: 4 }
    env: { HF_TOKEN: env:HUB_TOKEN }
    semantic-cache: { embeddings: e, judge: { url: "http://127.0.0.1:9000/judge", api-key: env:JUDGE_KEY } }
  - { name: e, engine: openai, attach: [{ url: "http://127.0.0.1:8101", api-key: env:ATTACHED_KEY }] }
  - name: b
    engine: bedrock
    attach:
      - aws-region: us-east-1
        model-name: n
        access-key-id: env:AWS_ID
        secret-access-key: env:AWS_SECRET
        session-token: env:AWS_SESSION
`;

/** ALL, with one webhook in its short form. */
function withShortWebhook(): Document {
  const document = parseDocument(ALL);
  document.setIn(["alerts", "webhook"], "env:HOOK_URL");
  return document;
}

const request = (target: ImageTarget) => ({
  target,
  packages: [],
  host: "0.0.0.0",
  port: 8000,
  numNodes: 1,
  image: "registry.example/millrace:1",
});
const render = (target: ImageTarget, text: string) => renderImage({ name: "plan.yaml", text }, request(target));

/** @example placeOf(["models", 0, "env", "HF_TOKEN"]) // "models[].env.*" */
function placeOf(path: KeyPath): string {
  const isVariable = path[0] === "models" && path[2] === "env";
  return path.map((key, i) => (typeof key === "number" ? "[]" : isVariable && i === 3 ? "*" : key)).join(".");
}

const placesIn = (root: unknown): string[] => secretPlacesIn(root).map(({ path }) => placeOf(path));

test("the files of these tests have every secret of the schema", () => {
  const tested = [ALL, String(withShortWebhook())].flatMap((text) => placesIn(parseDocument(text).toJS()));
  expect(new Set(tested)).toEqual(new Set(everyConfigKey().flatMap(placesIn)));
});

test.each(TARGETS)("%s: a machine is told of every variable of the file, in each of its lists", (target) => {
  const document = parseDocument(ALL);
  // A cluster scales each model separately.
  if (target === "kubernetes") {
    document.deleteIn(["models", 2]);
    document.deleteIn(["models", 1]);
    document.deleteIn(["models", 0, "semantic-cache"]);
  }
  const written = [...new Set(String(document).match(/(?<=env:)[A-Z_]+/g))].sort();
  const { files, fleet } = render(target, String(document));
  expect(fleet.variables).toEqual(written);
  const fileNamed = (name: string): string => {
    const content = files.find(({ path }) => path === name)?.content;
    return content !== undefined && "text" in content ? content.text : "";
  };
  const steps = nextSteps({ out: "out" }, fleet, request(target));
  const told: Readonly<Record<ImageTarget, string>> = {
    docker: steps.map(({ command }) => command).join("\n"),
    compose: fileNamed(".env.example"),
    kubernetes: fileNamed("secret.env.example"),
    systemd: steps.map(({ about }) => about).join("\n"),
    "cloud-init": steps.map(({ about }) => about).join("\n"),
    packer: steps.map(({ about }) => about).join("\n"),
  };
  for (const variable of written) expect(told[target]).toMatch(new RegExp(`\\b${variable}\\b`));
  if (target === "compose") for (const each of written) expect(fileNamed("compose.yaml")).toContain(`${each}: \${`);
  if (target === "kubernetes")
    for (const each of written) expect(fileNamed("deployment.yaml")).toContain(`key: ${each}`);
});

const errorOf = (text: string): MillraceError => {
  try {
    render("docker", text);
  } catch (thrown) {
    if (thrown instanceof MillraceError) return thrown;
    throw thrown;
  }
  throw new Error(`expected a refusal, got files of\n${text}`);
};

const PLACES = new Map(
  [parseDocument(ALL), withShortWebhook()].flatMap((document) =>
    secretPlacesIn(document.toJS()).map(({ path }) => [placeOf(path), [placeOf(path), path, document]] as const),
  ),
) as ReadonlyMap<string, [string, KeyPath, Document]>;

test.each([...PLACES.values()])("a secret written out at %s is refused, and not shown", (_, path, document) => {
  const copy = document.clone() as Document;
  copy.setIn(path, "https://hooks.example/sk-plain");
  const { code, message, hint } = errorOf(String(copy));
  expect(code).toBe("config_secret");
  expect(`${message} ${hint}`).not.toContain("sk-plain");
});

test.each([
  ["telemetry: { otlp-endpoint: 'http://user:sk-plain@collector.example' }", "telemetry.otlp-endpoint"],
  ["telemetry: { otlp-endpoint: 'http://collector.example/v1?api_key=sk-plain' }", "telemetry.otlp-endpoint"],
])("so is a password in a URL: %s", (line, place) => {
  const { code, message } = errorOf(`${line}\nmodels: [{ name: m, model: /m.gguf }]\n`);
  expect(code).toBe("config_secret");
  expect(message).toContain(place);
  expect(message).not.toContain("sk-plain");
});

test.each([
  ["args: ['--hf-token=sk-plain']", "--hf-token"],
  ["args: ['--proxy=http://user:sk-plain@proxy.example']", "a URL with a user"],
  ["program: [vllm, serve, --api-key, sk-plain]", "--api-key"],
  ["env: { HTTP_PROXY: 'http://user:sk-plain@proxy.example' }", "a URL with a user"],
  ["args: [--api_key, sk-plain]", "--api_key"],
  ["args: ['--hf_token=sk-plain']", "--hf_token"],
  ["args: [--tls-passphrase, sk-plain]", "--tls-passphrase"],
  [`args: ['--kv-transfer-config={"url":"redis://u:sk-plain@h:6379"}']`, "a URL with a user"],
  [`args: ['--kv-transfer-config={"api_key":"sk-plain"}']`, "a key inside a value"],
  ["args: ['--store=https://h/x?apikey=sk-plain']", "a URL with a key"],
  ["args: ['--header=Authorization: Bearer sk-plain']", "a key inside a value"],
])("and a secret among the engine's words: %s", (line, got) => {
  const { code, message } = errorOf(`models: [{ name: m, engine: vllm, model: org/m, ${line} }]\n`);
  expect(code).toBe("config_secret");
  expect(message).toContain(got);
  expect(message).not.toContain("sk-plain");
});

test("values that only look a little like one are rendered", () => {
  const { fleet } = render(
    "docker",
    `telemetry: { otlp-endpoint: 'https://collector.example/v1?max_tokens=5' }
hooks: { guardrails: [{ name: g, patterns: [{ name: p, regex: 'https?://[a-z]+@' }] }] }
models: [{ name: m, engine: vllm, model: org/m, args: [--max-tokens, '5', --tokenizer, a@b, '--override={"max_tokens":"5"}'], env: { NCCL_DEBUG: INFO, TOKENIZERS_PARALLELISM: 'false', A: x@y } }]
`,
  );
  expect(fleet.variables).toEqual(["MILLRACE_API_KEY"]);
});
