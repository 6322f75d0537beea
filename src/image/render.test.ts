/**
 * Guarantees of every target, read back from its files: no secrets, no root, hostile text stays text, and the
 * configuration arrives unchanged.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { shellWord } from "../core/shell-word.js";
import { ANY_ENVIRONMENT, parseConfig } from "../fleet/config/read-config.js";
import { slugOf } from "./image-fleet.js";
import { type ImageRequest, type ImageTarget, TARGETS } from "./image-request.js";
import { BUNDLED_MODEL } from "./machine.js";
import { renderImage } from "./render.js";

const CPU = `# why it is so
models:
  - name: small
    model: hf:org/repo:Q4_K_M
    options: {max-num-seqs: 8, threads: 4}
    instances: 1
`;
const NVIDIA = `models:
  - name: large
    engine: vllm
    model: org/large
    options: {max-num-seqs: 16, tensor-parallel-size: 2}
    instances: 2
    gpus: [0, 1, 2, 3]
    gpus-per-instance: 2
`;

const requestFor = (target: ImageTarget, more: Partial<ImageRequest> = {}): ImageRequest => ({
  target,
  packages: [{ kind: "spec", spec: "millrace@0.1.0" }],
  host: "0.0.0.0",
  port: 8000,
  numNodes: 1,
  image: target === "kubernetes" ? "registry.example/millrace:1" : "",
  ...more,
});

function render(
  target: ImageTarget,
  text: string,
  more: Partial<ImageRequest> = {},
  name = "plan.yaml",
): Record<string, string> {
  const { files } = renderImage({ name, text }, requestFor(target, more));
  return Object.fromEntries(
    files.map(({ path, content }) => [path, "text" in content ? content.text : content.copyOf]),
  );
}

/** The millrace.yaml that arrives on the machine. */
function configIn(target: ImageTarget, files: Record<string, string>): string {
  const userData = files["user-data"] ?? files["cidata/user-data"];
  if (userData !== undefined) return parse(userData).write_files[0].content;
  if (target === "kubernetes") return parse(files["config-map.yaml"]!).data["millrace.yaml"];
  return files["root/etc/millrace/millrace.yaml"] ?? files["millrace.yaml"]!;
}

describe.each(TARGETS)("%s", (target) => {
  test("the same input gives the same files", () => {
    expect(render(target, NVIDIA)).toEqual(render(target, NVIDIA));
  });

  test("the configuration arrives with its comments, and with an API key from the environment", () => {
    const text = configIn(target, render(target, CPU));
    const config = parseConfig(text, "millrace.yaml", { MILLRACE_API_KEY: "k" });
    expect(config.host).toBe("0.0.0.0");
    expect(config.apiKeys.map(({ key }) => key.reveal())).toEqual(["k"]);
    expect(config.models[0]).toMatchObject({ name: "small", model: "hf:org/repo:Q4_K_M", options: { maxNumSeqs: 8 } });
    expect(text).toMatch(/^# why it is so/m);
  });

  test("an NVIDIA configuration gets its engine and its GPUs", () => {
    const all = Object.values(render(target, NVIDIA)).join("\n");
    if (target !== "kubernetes") expect(all).toMatch(/vllm\/vllm-openai:v0\.33\.0|vllm==0\.33\.0/);
    if (target === "compose") expect(all).toMatch(/driver: nvidia\s+count: 4/);
    if (target === "kubernetes") expect(all).toMatch(/nvidia\.com\/gpu: "2"/);
    if (target === "systemd") expect(all).not.toMatch(/PrivateDevices/);
  });

  // Names of models and paths come from the user; commands and templates do not.
  const hostile = fc.stringMatching(/^[!-~]{0,12}$/).map((text) => `a${text}'"$(x)\`y\`\${z}%{w}{{v}}\\`);
  test("a hostile name changes only the value it stands for", () => {
    const withName = (name: string, path: string) =>
      JSON.stringify({ models: [{ name, model: `/models/${path}`, options: { "max-num-seqs": 8 } }] });
    const plain = render(target, withName("plain-name", "plain-path"));
    fc.assert(
      fc.property(
        hostile,
        hostile.map((text) => `${text}\n\t# `),
        (name, path) => {
          const files = render(target, withName(name, path));
          expect(Object.keys(files)).toEqual(Object.keys(plain));
          const text = configIn(target, files);
          const { models } = parseConfig(text, "millrace.yaml", ANY_ENVIRONMENT);
          expect(models[0]).toMatchObject({ name, model: `/models/${path}` });
          for (const [file, before] of Object.entries(plain)) {
            if (files[file] === before) continue;
            // Only files that carry millrace.yaml differ, and only within it.
            const carried = (whole: string, part: string): unknown =>
              whole === part ? "" : JSON.stringify(parse(whole)).replace(JSON.stringify(part), "");
            expect(carried(files[file]!, text), file).toBe(carried(before, configIn(target, plain)));
          }
        },
      ),
      { numRuns: 12 },
    );
  });
});

test("slugs are valid and shell words are quoted for any text", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(slugOf(text)).toMatch(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/);
      expect(slugOf(text).length).toBeLessThanOrEqual(40);
      const word = shellWord(text);
      // A shell's reading: unquoted parts have no special characters, quoted ones stand for themselves.
      const read = word.replace(
        /'([^']*)'|\\(.)/gs,
        (_, quoted: string | undefined, escaped: string) => quoted ?? escaped,
      );
      expect(read).toBe(text);
      if (!word.startsWith("'")) expect(word).toMatch(/^[\w@%+=:,./-]+$/);
    }),
  );
});

test("containers do not run as root, write to one folder, and have no compiler", () => {
  const { Dockerfile, "compose.yaml": compose } = render("compose", CPU);
  expect(Dockerfile).toMatch(/^USER 10001:10001$/m);
  expect(Dockerfile).toMatch(/^HEALTHCHECK .*"health"/m);
  expect(Dockerfile).not.toMatch(/apt-get|g\+\+|gcc/);
  const { services } = parse(compose!);
  expect(services.millrace).toMatchObject({ read_only: true, cap_drop: ["ALL"], ports: ["0.0.0.0:8000:8000"] });
  expect(services.millrace.logging.options).toEqual({ "max-size": "10m", "max-file": "5" });
});

test("a server on loopback needs no key, and Compose publishes it on loopback only", () => {
  expect(configIn("systemd", render("systemd", CPU, { host: "127.0.0.1" }))).not.toMatch(/api-keys/);
  const files = render("compose", CPU, { host: "::1" });
  expect(parse(files["compose.yaml"]!).services.millrace.ports).toEqual(["[::1]:8000:8000"]);
  expect(configIn("compose", files)).toMatch(/key: env:MILLRACE_API_KEY/);
});

test("package files are copied along, and the installer uses them", () => {
  const packages = [{ kind: "file", path: "/tmp/x/millrace-0.1.0.tgz", name: "millrace-0.1.0.tgz" }] as const;
  const files = render("systemd", CPU, { packages });
  expect(files["packages/millrace-0.1.0.tgz"]).toBe("/tmp/x/millrace-0.1.0.tgz");
  expect(files["install.sh"]).toMatch(/^npm install .* \.\/packages\/millrace-0\.1\.0\.tgz$/m);
  expect(() => render("cloud-init", CPU, { packages })).toThrow(/a version or a URL/);
});

test("the model `bundled` is the one in the package", () => {
  const { fleet } = renderImage({ name: "x.yaml", text: CPU, model: "bundled" }, requestFor("systemd"));
  expect(fleet.config.models[0]!.model).toBe(BUNDLED_MODEL);
});

test("a machine with GPUs gets a pinned driver after it has shown its GPU; a host of containers gets the toolkit too", () => {
  const { "install.sh": installer } = render("systemd", NVIDIA);
  expect(installer).toMatch(/gpu_missing[\s\S]*nvidia-driver-pinning-580\n.*nvidia-kernel-open-dkms\n/);
  expect(render("compose", NVIDIA)["gpu-host.sh"]).toMatch(/gpu_missing[\s\S]*nvidia-container-toolkit=[\d.-]+ /);
  // The machine that builds an image has no GPU.
  expect(JSON.stringify(render("packer", NVIDIA))).not.toMatch(/gpu_missing|modprobe/);
  expect(Object.values(render("compose", CPU)).join()).not.toMatch(/nvidia/);
});

describe("kubernetes", () => {
  test("KEDA scales by the load: up at 80 % of the seats for 30 s, down after ten minutes, with a spare pod", () => {
    const { spec } = parse(render("kubernetes", NVIDIA)["scaled-object.yaml"]!);
    expect(spec.minReplicaCount).toBe(3);
    const { scaleUp, scaleDown } = spec.advanced.horizontalPodAutoscalerConfig.behavior;
    expect([scaleUp.stabilizationWindowSeconds, scaleDown.stabilizationWindowSeconds]).toEqual([30, 600]);
    const { threshold, query } = spec.triggers[0].metadata;
    expect(Number(threshold)).toBeCloseTo(0.8 * 16);
    expect(query).toMatch(/queue_depth.*in_flight.*\+ 12\.8$/);
  });

  test("a pod is one instance with all its GPUs", () => {
    const [model] = parseConfig(configIn("kubernetes", render("kubernetes", NVIDIA)), "x", ANY_ENVIRONMENT).models;
    expect([model!.instances, model!.gpus]).toEqual([1, undefined]);
  });

  test("all objects are in one namespace, and every volume, label and secret they refer to exists", () => {
    const files = render("kubernetes", NVIDIA, { numNodes: 2 });
    const { resources } = parse(files["kustomization.yaml"]!);
    const objects = resources.flatMap((path: string) => parseAllDocuments(files[path]!).map((each) => each.toJS()));
    const workloads = objects.filter(({ kind }: { kind: string }) => kind !== "Namespace");
    for (const { metadata } of workloads) expect(metadata.namespace).toBe("millrace");
    const names = workloads.map(
      ({ kind, metadata }: { kind: string; metadata: { name: string } }) => `${kind} ${metadata.name}`,
    );
    expect(names).toEqual([...new Set(names)]);
    expect(JSON.stringify(objects)).not.toMatch(/the-key-of-the-engine/);
  });

  test.each([
    "vllm",
    "sglang",
  ])("several nodes use %s's own mode, with the gateway in front of its leader", (engine) => {
    const hostile = NVIDIA.replace("engine: vllm", `engine: ${engine}`).replace("org/large", "/models/$(HOME)");
    const files = render("kubernetes", hostile, { numNodes: 2 });
    const { leaderTemplate, workerTemplate, size } = parse(files["leader-worker-set.yaml"]!).spec.leaderWorkerTemplate;
    expect(size).toBe(2);
    const [leader, worker] = [leaderTemplate, workerTemplate].map(({ spec }) => spec.containers[0].command);
    for (const command of [leader, worker]) {
      expect(command).toContain("/models/$$(HOME)");
      expect(command.join(" ")).toMatch(/--nnodes \$\(LWS_GROUP_SIZE\) --node-rank \$\(LWS_WORKER_INDEX\)/);
    }
    expect(worker.includes("--headless")).toBe(engine === "vllm");
    const [gateway] = parseConfig(configIn("kubernetes", files), "x", ANY_ENVIRONMENT).models;
    expect(gateway!.attach[0]!.url).toBe("http://millrace-plan-engine.millrace.svc:8001");
  });

  test("several nodes keep the file's keys and environment, and drop our prefix from the hub's name", () => {
    const own = `api-keys: [{ tenant: a, key: "env:TEAM_A_KEY" }]\n${NVIDIA.replace("org/large", "hf:org/large")}`;
    const document = parse(own);
    document.models[0].env = { NCCL_DEBUG: "INFO", WANDB_API_KEY: "env:WANDB" };
    const files = render("kubernetes", JSON.stringify(document), { numNodes: 2 });
    const { leaderTemplate } = parse(files["leader-worker-set.yaml"]!).spec.leaderWorkerTemplate;
    const [{ command, env }] = leaderTemplate.spec.containers;
    expect(command).toContain("org/large");
    expect(env).toContainEqual({ name: "NCCL_DEBUG", value: "INFO" });
    expect(env.find(({ name }: { name: string }) => name === "WANDB_API_KEY").valueFrom.secretKeyRef.key).toBe("WANDB");
    expect(configIn("kubernetes", files)).toContain("env:TEAM_A_KEY");
    for (const name of ["TEAM_A_KEY", "WANDB", "MILLRACE_API_KEY"]) {
      expect(files["secret.env.example"]).toContain(`${name}=`);
    }
  });

  test("several nodes keep the gateway's other keys: who may do what, within which limits, under which guardrails", () => {
    const own = `admin-key: env:ADMIN
hooks: { guardrails: [{ name: g, find: [email] }] }
ledger: {}
${NVIDIA}    limits: { requests-per-minute: 5 }
    price: { input: 1, output: 2 }
`;
    const text = configIn("kubernetes", render("kubernetes", own, { numNodes: 2 }));
    const { hooks, adminKey, ledger, models } = parseConfig(text, "x", ANY_ENVIRONMENT);
    expect(hooks.guardrails.map(({ name }) => name)).toEqual(["g"]);
    expect([adminKey, ledger]).not.toContain(undefined);
    expect(models[0]).toMatchObject({ limits: { requestsPerMinute: 5 }, price: { output: expect.anything() } });
    expect([models[0]!.model, models[0]!.instances, models[0]!.gpus]).toEqual([undefined, undefined, undefined]);
  });
});
