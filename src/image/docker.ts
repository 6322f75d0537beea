/**
 * A container image and a Compose project. millrace comes with prebuilt kernels; for NVIDIA GPUs, the image builds on
 * the engine's own.
 */
import { stringify } from "yaml";
import { copiesOf, type ImageFile, type ImageFleet, type ImageRequest, textFile } from "./image-request.js";
import {
  APP,
  BOOT_ARGS,
  CONFIG,
  ENGINE_SOURCES,
  ENVIRONMENT,
  HEALTH_ARGS,
  NODE_IMAGE,
  npmInstall,
  START_MINUTES,
  STATE,
  STOP_SECONDS,
  USER_ID,
} from "./machine.js";
import { gpuHostFiles } from "./systemd.js";

/** The exec form of a command, without a shell. */
const exec = (words: readonly string[]): string => JSON.stringify(words);

function dockerfile({ engine, config }: ImageFleet, { packages }: ImageRequest): string {
  const base = engine === "millrace" ? NODE_IMAGE : ENGINE_SOURCES[engine].image;
  const specs = packages.map((each) => (each.kind === "file" ? `./packages/${each.name}` : each.spec));
  const hasFiles = packages.some(({ kind }) => kind === "file");
  const environment = Object.entries(ENVIRONMENT).map(([name, value]) => `${name}=${value}`);
  return [
    "# Rendered by millrace image render. At run time, keys come from the environment; the first start downloads the models.",
    `FROM ${NODE_IMAGE} AS install`,
    `WORKDIR ${APP}`,
    ...(hasFiles ? ["COPY packages/ ./packages/"] : []),
    `RUN ${exec(npmInstall(specs))}`,
    "",
    `FROM ${base}`,
    ...(engine === "millrace" ? [] : ["COPY --from=install /usr/local/bin/node /usr/local/bin/node"]),
    `COPY --from=install ${APP} ${APP}`,
    `COPY millrace.yaml ${CONFIG}`,
    `RUN ${exec(["install", "-d", "-o", String(USER_ID), "-g", String(USER_ID), STATE])}`,
    `ENV ${environment.join(" \\\n    ")}`,
    `USER ${USER_ID}:${USER_ID}`,
    `WORKDIR ${STATE}`,
    `VOLUME ${STATE}`,
    `EXPOSE ${config.port}`,
    "STOPSIGNAL SIGTERM",
    `HEALTHCHECK --interval=30s --timeout=10s --start-period=${START_MINUTES}m --retries=3 CMD ${exec(["node", ...HEALTH_ARGS])}`,
    `ENTRYPOINT ${exec(["node", ...BOOT_ARGS])}`,
    "",
  ].join("\n");
}

export function dockerFiles(fleet: ImageFleet, request: ImageRequest): ImageFile[] {
  return [
    textFile("Dockerfile", dockerfile(fleet, request)),
    textFile(".dockerignore", "*\n!millrace.yaml\n!packages\n"),
    textFile("millrace.yaml", fleet.text),
    ...gpuHostFiles(fleet),
    ...copiesOf(request.packages),
  ];
}

/** The host as an address, since Docker accepts no names here. */
const address = (host: string): string =>
  host === "localhost" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host;

function composeOf({ slug, numGpus, variables, config }: ImageFleet, { host }: ImageRequest): object {
  // If a required variable is missing, `docker compose up` stops with this message. The value stays in .env.
  const required = variables.map((name) => [name, `\${${name}:?set ${name} in .env}`]);
  const gpus = { driver: "nvidia", count: numGpus, capabilities: ["gpu"] };
  return {
    services: {
      millrace: {
        build: ".",
        image: `millrace-${slug}`,
        init: true,
        restart: "unless-stopped",
        stop_grace_period: `${STOP_SECONDS}s`,
        ports: [`${address(host)}:${config.port}:${config.port}`],
        // Passed on if set, for models that require a licence.
        environment: { ...Object.fromEntries(required), HF_TOKEN: null },
        volumes: [`state:${STATE}`],
        read_only: true,
        tmpfs: ["/tmp"],
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
        logging: { driver: "json-file", options: { "max-size": "10m", "max-file": "5" } },
        // GPUs of one instance communicate through shared memory.
        ...(numGpus === 0 ? {} : { shm_size: "16gb", deploy: { resources: { reservations: { devices: [gpus] } } } }),
      },
    },
    volumes: { state: {} },
  };
}

export function composeFiles(fleet: ImageFleet, request: ImageRequest): ImageFile[] {
  const variables = [...fleet.variables.map((name) => `${name}=`), "# HF_TOKEN="];
  return [
    ...dockerFiles(fleet, request),
    textFile("compose.yaml", stringify(composeOf(fleet, request), { lineWidth: 0, nullStr: "" })),
    textFile(".env.example", `# Copy to .env and fill in. The file stays on this machine.\n${variables.join("\n")}\n`),
  ];
}
