/**
 * Kubernetes: each pod is one instance behind its own gateway. KEDA scales the pods by the number of requests; all pods
 * share one volume.
 */
import { stringify } from "yaml";
import { MillraceError } from "../core/errors.js";
import { scheduleOf } from "../fleet/plan-models.js";
import type { Schedule } from "../fleet/scaling/schedule.js";
import { type ImageFile, type ImageFleet, type ImageRequest, textFile } from "./image-request.js";
import {
  CONTAINER_SECURITY,
  type KubernetesObject,
  meta,
  NAMESPACE,
  type Named,
  namedOf,
  POD_SECURITY,
  plainVariables,
  secretVariable,
} from "./kubernetes-objects.js";
import { START_MINUTES, STATE, STOP_SECONDS } from "./machine.js";
import { multiNodeObjects } from "./multi-node.js";
import { clusterRules } from "./prometheus-rules.js";

/** One pod beyond the load's need, since starting one takes minutes. */
const NUM_SPARE = 1;
/** Largest number of pods, as a multiple of the plan's. */
const GROWTH = 4;
/** Target share of the seats in use. */
const FULL = 0.8;
/** Limit of a window's number of pods; KEDA also has its own. */
const MAX_PODS = 4096;
const UP_AFTER_S = 30;
const DOWN_AFTER_S = 600;
const PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090";

function podSpec(named: Named, fleet: ImageFleet, image: string): object {
  const { config, numGpus, variables } = fleet;
  const threads = config.models[0]!.options.threads;
  const gpus = { "nvidia.com/gpu": String(numGpus) };
  const probe = { httpGet: { path: "/health", port: "http" } };
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: STOP_SECONDS,
    securityContext: POD_SECURITY,
    containers: [
      {
        name: "millrace",
        image,
        env: [
          ...plainVariables,
          // All pods share the state folder, so logs go elsewhere.
          { name: "MILLRACE_LOGS", value: "/tmp/logs" },
          ...variables.map((variable) => secretVariable(named, variable)),
          ...(variables.includes("HF_TOKEN") ? [] : [secretVariable(named, "HF_TOKEN", true)]),
        ],
        ports: [{ name: "http", containerPort: config.port }],
        startupProbe: { ...probe, periodSeconds: 10, failureThreshold: START_MINUTES * 6 },
        readinessProbe: { ...probe, periodSeconds: 5, failureThreshold: 2 },
        // Checks only that the server runs: an engine's restart is no reason to end the pod.
        livenessProbe: { tcpSocket: { port: "http" }, periodSeconds: 20, failureThreshold: 3 },
        // Gives Kubernetes time to remove the pod from all lists of endpoints.
        lifecycle: { preStop: { sleep: { seconds: 10 } } },
        resources: {
          ...(threads === undefined ? {} : { requests: { cpu: String(threads) } }),
          ...(numGpus === 0 ? {} : { limits: gpus }),
        },
        securityContext: CONTAINER_SECURITY,
        volumeMounts: [
          { name: "config", mountPath: "/etc/millrace", readOnly: true },
          { name: "state", mountPath: STATE },
          { name: "tmp", mountPath: "/tmp" },
          ...(numGpus === 0 ? [] : [{ name: "shm", mountPath: "/dev/shm" }]),
        ],
      },
    ],
    volumes: [
      { name: "config", configMap: { name: named.name } },
      { name: "state", persistentVolumeClaim: { claimName: named.name } },
      { name: "tmp", emptyDir: {} },
      ...(numGpus === 0 ? [] : [{ name: "shm", emptyDir: { medium: "Memory" } }]),
    ],
  };
}

/** @param replicas undefined if KEDA sets the number */
function deployment(named: Named, fleet: ImageFleet, image: string, replicas?: number): KubernetesObject {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: meta(named),
    spec: {
      ...(replicas === undefined ? {} : { replicas }),
      selector: { matchLabels: named.labels },
      // A new pod is ready before an old one stops, so capacity never drops.
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      progressDeadlineSeconds: START_MINUTES * 60,
      template: { metadata: { labels: named.labels }, spec: podSpec(named, fleet, image) },
    },
  };
}

/**
 * Query for the load: running and waiting requests, plus those of a spare pod. KEDA divides it by the target number per
 * pod.
 */
export function demandQuery(job: string, perPod: number): string {
  const sum = (metric: string) => `(sum(millrace_fleet:${metric}{job="${job}"}) or vector(0))`;
  return `${sum("queue_depth")} + ${sum("in_flight")} + ${NUM_SPARE * perPod}`;
}

/**
 * Each window is a lower bound: KEDA takes the highest number of all triggers, so a window's largest number has no
 * trigger.
 */
function cronTriggers({ timeZone = "UTC", windows }: Schedule): object[] {
  return windows.flatMap(({ days, from, to, min }) => {
    const clock = (minute: number) => `${minute % 60} ${Math.floor(minute / 60) % 24} * * `;
    const endDays = to > from ? days : days.map((day) => (day + 1) % 7).sort();
    const metadata = {
      timezone: timeZone,
      start: clock(from) + days.join(","),
      end: clock(to) + endDays.join(","),
      desiredReplicas: String(min),
    };
    return min === 0 ? [] : [{ type: "cron", metadata }];
  });
}

function scaledObject(
  named: Named,
  target: object,
  seats: number,
  replicas: number,
  schedule: Schedule | undefined,
): KubernetesObject {
  const perPod = FULL * seats;
  const min = replicas + NUM_SPARE;
  return {
    apiVersion: "keda.sh/v1alpha1",
    kind: "ScaledObject",
    metadata: meta(named),
    spec: {
      scaleTargetRef: target,
      minReplicaCount: min,
      maxReplicaCount: GROWTH * replicas + NUM_SPARE,
      pollingInterval: 10,
      fallback: { failureThreshold: 6, replicas: min },
      advanced: {
        horizontalPodAutoscalerConfig: {
          behavior: {
            // Uses the lowest recommendation in this window, so a short burst starts no pod; then at most doubles the
            // number.
            scaleUp: {
              stabilizationWindowSeconds: UP_AFTER_S,
              policies: [{ type: "Percent", value: 100, periodSeconds: UP_AFTER_S }],
            },
            // Uses the highest recommendation in this window, and removes one pod at a time.
            scaleDown: {
              stabilizationWindowSeconds: DOWN_AFTER_S,
              policies: [{ type: "Pods", value: 1, periodSeconds: DOWN_AFTER_S }],
            },
          },
        },
      },
      triggers: [
        {
          type: "prometheus",
          metricType: "AverageValue",
          metadata: {
            serverAddress: PROMETHEUS,
            query: demandQuery(`${NAMESPACE}/${named.name}`, perPod),
            threshold: String(perPod),
          },
        },
        ...(schedule === undefined ? [] : cronTriggers(schedule)),
      ],
    },
  };
}

/** Throws invalid_option unless the fleet starts exactly one model, with a known number of seats. */
function theModel({ config }: ImageFleet) {
  const [model, second] = config.models;
  if (model === undefined || second !== undefined || model.model === undefined) {
    const got = second === undefined ? "an attached one" : `${config.models.length} models`;
    throw new MillraceError("invalid_option", `expected one model that the fleet starts, for kubernetes, got ${got}`, {
      hint: "render each model separately, since each scales by its own load",
    });
  }
  const seats = model.options.maxNumSeqs;
  if (seats === undefined) {
    throw new MillraceError("invalid_option", "expected max-num-seqs among the model's options, got none", {
      hint: "KEDA scales the pods by the share of seats in use: set the number of seats",
    });
  }
  return { model, seats };
}

export function kubernetesFiles(fleet: ImageFleet, request: ImageRequest): ImageFile[] {
  const { model, seats } = theModel(fleet);
  const named = namedOf(fleet.slug);
  const { labels } = named;
  const isMultiNode = request.numNodes > 1;
  const multiNode = isMultiNode ? multiNodeObjects(named, fleet, model, request) : undefined;
  const served = multiNode?.gateway ?? fleet;
  const job = `${NAMESPACE}/${named.name}`;
  const target = isMultiNode
    ? { apiVersion: "leaderworkerset.x-k8s.io/v1", kind: "LeaderWorkerSet", name: `${named.name}-engine` }
    : { name: named.name };
  const rules = { groups: clusterRules(job, seats, isMultiNode) };
  const objects: Readonly<Record<string, KubernetesObject>> = {
    "namespace.yaml": {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: NAMESPACE, labels: { "pod-security.kubernetes.io/enforce": "restricted" } },
    },
    "config-map.yaml": {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: meta(named),
      data: { "millrace.yaml": served.text },
    },
    "volume-claim.yaml": {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: meta(named),
      // All nodes read the same copy of the weights.
      spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "200Gi" } } },
    },
    "deployment.yaml": deployment(named, served, request.image, isMultiNode ? 2 : undefined),
    "service.yaml": {
      apiVersion: "v1",
      kind: "Service",
      metadata: meta(named),
      spec: { selector: labels, ports: [{ name: "http", port: fleet.config.port, targetPort: "http" }] },
    },
    "disruption-budget.yaml": {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: meta(named),
      spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
    },
    "scaled-object.yaml": scaledObject(
      named,
      target,
      seats,
      fleet.numPlanned,
      scheduleOf(fleet.config, model, MAX_PODS),
    ),
    "pod-monitor.yaml": {
      apiVersion: "monitoring.coreos.com/v1",
      kind: "PodMonitor",
      metadata: meta(named),
      spec: {
        selector: { matchLabels: labels },
        // Keeps the gateway's names of instances.
        podMetricsEndpoints: [{ port: "http", path: "/metrics", interval: "10s", honorLabels: true }],
      },
    },
    "prometheus-rule.yaml": {
      apiVersion: "monitoring.coreos.com/v1",
      kind: "PrometheusRule",
      metadata: meta(named),
      spec: rules,
    },
    ...multiNode?.objects,
  };
  const kustomization = {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    resources: Object.keys(objects),
  };
  const yaml = (value: object): string => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
  return [
    ...Object.entries(objects).map(([path, object]) => textFile(path, yaml(object))),
    textFile("kustomization.yaml", yaml(kustomization)),
    textFile("prometheus-rules.yaml", yaml(rules)),
    textFile("secret.env.example", `${[...served.variables.map((name) => `${name}=`), "# HF_TOKEN="].join("\n")}\n`),
  ];
}
