/**
 * One instance on several machines, by the engine's own multi-node mode: a LeaderWorkerSet with the gateway in front of
 * its leader.
 */
import { parse, stringify } from "yaml";
import { MillraceError } from "../core/errors.js";
import { ADAPTERS } from "../fleet/adapters/index.js";
import { MULTI_HOST_FLAGS } from "../fleet/adapters/multi-host.js";
import { ANY_ENVIRONMENT, parseConfig } from "../fleet/config/read-config.js";
import type { ModelEntry } from "../fleet/config/schema.js";
import type { ImageEngine, ImageFleet, ImageRequest } from "./image-request.js";
import {
  CONTAINER_SECURITY,
  type KubernetesObject,
  meta,
  NAMESPACE,
  type Named,
  POD_SECURITY,
  plainVariables,
  secretVariable,
} from "./kubernetes-objects.js";
import { ENGINE_SOURCES, START_MINUTES, STATE, STOP_SECONDS } from "./machine.js";
import { KEY_VARIABLE } from "./made-keys.js";

const PORT = 8001;
const MASTER_PORT = 29_501;
/** Variables that LeaderWorkerSet sets in each pod and Kubernetes substitutes in arguments. */
const LEADER = "$(LWS_LEADER_ADDRESS)";
const SIZE = "$(LWS_GROUP_SIZE)";
const RANK = "$(LWS_WORKER_INDEX)";

type MultiNodeEngine = Exclude<ImageEngine, "millrace">;

const flagsOf = (engine: MultiNodeEngine, numHosts: number, isHead: boolean): readonly string[] =>
  MULTI_HOST_FLAGS[engine]({ numHosts, size: SIZE, rank: RANK, head: LEADER, port: MASTER_PORT, isHead });

/** Escapes $(NAME), which Kubernetes would substitute in arguments and values. */
const kubernetesText = (text: string): string => text.replaceAll("$(", () => "$$(");

/** Placeholder for the key in the adapter's output. */
const KEY_PLACE = "the-key-of-the-engine";

interface MultiNode {
  readonly gateway: ImageFleet;
  readonly objects: Readonly<Record<string, KubernetesObject>>;
}

function assertMultiNode(engine: ImageEngine): asserts engine is MultiNodeEngine {
  if (engine !== "millrace") return;
  throw new MillraceError("invalid_option", "expected vllm or sglang with --nodes, got millrace", {
    hint: "only these engines can run one instance on several machines",
  });
}

export function multiNodeObjects(named: Named, fleet: ImageFleet, model: ModelEntry, request: ImageRequest): MultiNode {
  const { engine } = fleet;
  assertMultiNode(engine);
  const engineNamed: Named = {
    name: `${named.name}-engine`,
    labels: { ...named.labels, "app.kubernetes.io/instance": `${named.name}-engine` },
  };
  const leaderLabels = { ...engineNamed.labels, "millrace.dev/role": "leader" };
  const template = (isLeader: boolean) => ({
    metadata: { labels: isLeader ? leaderLabels : engineNamed.labels },
    spec: podSpec(named, fleet, model, engine, request.numNodes, isLeader),
  });
  const fromGateway = { podSelector: { matchLabels: named.labels } };
  const fromGroup = { podSelector: { matchLabels: engineNamed.labels } };
  return {
    gateway: gatewayFleet(fleet, model, `http://${engineNamed.name}.${NAMESPACE}.svc:${PORT}`),
    objects: {
      "leader-worker-set.yaml": {
        apiVersion: "leaderworkerset.x-k8s.io/v1",
        kind: "LeaderWorkerSet",
        metadata: meta(engineNamed),
        spec: {
          leaderWorkerTemplate: {
            size: request.numNodes,
            // The other ranks cannot continue after the loss of one.
            restartPolicy: "RecreateGroupOnPodRestart",
            leaderTemplate: template(true),
            workerTemplate: template(false),
          },
        },
      },
      "leader-service.yaml": {
        apiVersion: "v1",
        kind: "Service",
        metadata: meta(engineNamed),
        spec: { selector: leaderLabels, ports: [{ name: "http", port: PORT, targetPort: "http" }] },
      },
      // Traffic between an engine's ranks is unauthenticated, so a network policy limits it to the pods.
      "network-policy.yaml": {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: meta(engineNamed),
        spec: {
          podSelector: { matchLabels: engineNamed.labels },
          policyTypes: ["Ingress"],
          ingress: [{ from: [fromGroup] }, { from: [fromGateway], ports: [{ port: "http" }] }],
        },
      },
    },
  };
}

function podSpec(
  named: Named,
  fleet: ImageFleet,
  model: ModelEntry,
  engine: MultiNodeEngine,
  numNodes: number,
  isLeader: boolean,
): object {
  const adapter = ADAPTERS[engine];
  // The engine downloads the model itself, and takes the hub's name without our prefix.
  const name = model.model!.replace(/^hf:/, "");
  const options = { ...model.options, model: name, servedModelName: model.name, apiKey: KEY_PLACE };
  const place = { host: "0.0.0.0", port: PORT, sparePorts: [PORT + 1, PORT + 2], folder: "/tmp" } as const;
  const plan = adapter.launch(options as Parameters<typeof adapter.launch>[0], adapter.program!, place, undefined);
  const filled = (text: string): string => kubernetesText(text).replaceAll(KEY_PLACE, `$(${KEY_VARIABLE})`);
  const command = [...plan.command, ...model.args].map(filled);
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: STOP_SECONDS,
    securityContext: POD_SECURITY,
    containers: [
      {
        name: engine,
        image: ENGINE_SOURCES[engine].image,
        command: [...command, ...flagsOf(engine, numNodes, isLeader)],
        env: [
          ...plainVariables,
          secretVariable(named, KEY_VARIABLE),
          secretVariable(named, "HF_TOKEN", true),
          ...Object.entries(plan.env).map(([variable, value]) => ({ name: variable, value: filled(value) })),
          ...Object.entries(writtenIn(fleet).models[0]?.env ?? {}).map(([variable, value]) =>
            variableOf(named, variable, value),
          ),
        ],
        ...(isLeader
          ? {
              ports: [{ name: "http", containerPort: PORT }],
              startupProbe: {
                httpGet: { path: adapter.healthPath, port: "http" },
                periodSeconds: 10,
                failureThreshold: START_MINUTES * 6,
              },
              readinessProbe: {
                httpGet: { path: adapter.healthPath, port: "http" },
                periodSeconds: 10,
                timeoutSeconds: 5,
              },
            }
          : {}),
        resources: { limits: { "nvidia.com/gpu": String(fleet.numGpus) } },
        securityContext: CONTAINER_SECURITY,
        volumeMounts: [
          { name: "state", mountPath: STATE },
          { name: "tmp", mountPath: "/tmp" },
          { name: "shm", mountPath: "/dev/shm" },
        ],
      },
    ],
    volumes: [
      { name: "state", persistentVolumeClaim: { claimName: named.name } },
      { name: "tmp", emptyDir: {} },
      { name: "shm", emptyDir: { medium: "Memory" } },
    ],
  };
}

/** The original file, with unresolved env:NAME. */
const writtenIn = ({ text }: ImageFleet) =>
  parse(text) as Readonly<Record<string, unknown>> & {
    readonly models: (Readonly<Record<string, unknown>> & { readonly env?: Record<string, string> })[];
  };

/** Variables of the file's `env`. Values of env:NAME come from the secret. */
function variableOf(named: Named, name: string, value: string): object {
  const source = /^env:(\w+)$/.exec(value)?.[1];
  if (source === undefined) return { name, value: kubernetesText(value) };
  return { ...secretVariable(named, source), name };
}

/** A model's keys that the gateway applies, wherever the model runs. */
const KEYS_OF_GATEWAY = ["limits", "max-tokens", "cache", "semantic-cache", "price", "hardware-price"] as const;

/** The gateway in front of the leaders, without GPUs, with the complete file except the model's engine. */
function gatewayFleet(fleet: ImageFleet, { name, aliases, engine, options }: ModelEntry, url: string): ImageFleet {
  const written = writtenIn(fleet);
  const kept = KEYS_OF_GATEWAY.flatMap((key) => {
    const value = written.models[0]?.[key];
    return value === undefined ? [] : [[key, value] as const];
  });
  const text = stringify(
    {
      ...written,
      models: [
        {
          name,
          ...Object.fromEntries(kept),
          ...(aliases.length === 0 ? {} : { aliases }),
          engine,
          options: { "max-num-seqs": options.maxNumSeqs },
          attach: [{ url, "api-key": `env:${KEY_VARIABLE}` }],
        },
      ],
    },
    { lineWidth: 0 },
  );
  const variables = [...new Set([...fleet.variables, KEY_VARIABLE])].sort();
  return { ...fleet, text, variables, config: parseConfig(text, "millrace.yaml", ANY_ENVIRONMENT), numGpus: 0 };
}
