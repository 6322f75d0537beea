/** Commands to type after `image render`. */

import { shellWord } from "../core/shell-word.js";
import type { ImageFleet, ImageRequest, ImageTarget } from "./image-request.js";
import { STOP_SECONDS } from "./machine.js";
import { MADE_KEYS } from "./made-keys.js";

export interface NextStep {
  readonly command: string;
  readonly about: string;
}

interface Facts {
  readonly out: string;
  readonly fleet: ImageFleet;
  readonly request: ImageRequest;
}

const CONFINED =
  "--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --log-opt max-size=10m --log-opt max-file=5";

const step = (command: string, about: string): NextStep => ({ command, about });

/** The places of the keys that the machine's first boot generates. A server on loopback needs none. */
const keySteps = ({ variables }: ImageFleet, place: string): NextStep[] =>
  MADE_KEYS.filter(({ variable }) => variables.includes(variable)).map(({ file, about }) =>
    step(`sudo cat /var/lib/millrace/${file}`, `${place}${about}, made at the first boot`),
  );

/** The operator sets the variables that the first boot does not generate. */
function environmentStep({ variables }: ImageFleet): NextStep[] {
  const names = variables.filter((name) => MADE_KEYS.every(({ variable }) => variable !== name));
  if (names.length === 0) return [];
  const about = `on the machine: type a line NAME=value for each of ${names.join(", ")}, then Ctrl-D; it cannot start without them`;
  return [step("sudo install -D -m 0600 /dev/stdin /etc/millrace/environment", about)];
}

const STEPS: Readonly<Record<ImageTarget, (facts: Facts) => readonly NextStep[]>> = {
  docker: ({ out, fleet: { slug, numGpus, config, variables } }) => [
    step(`docker build -t millrace-${slug} ${out}`, "no compiler is needed"),
    step(
      `docker run -d --init --stop-timeout ${STOP_SECONDS} ${numGpus > 0 ? "--gpus all --shm-size 16g " : ""}${CONFINED} -v millrace:/var/lib/millrace ${variables.map((name) => `-e ${name} `).join("")}-p ${config.port}:${config.port} millrace-${slug}`,
      "hands on the variables of your environment",
    ),
  ],
  compose: ({ out }) => [
    step(`cp ${out}/.env.example ${out}/.env`, "and write a key into it"),
    step(`docker compose --project-directory ${out} up --build -d`, "starts it"),
    step(`docker compose --project-directory ${out} logs -f`, "shows the pull, the start and the bench"),
  ],
  "cloud-init": ({ out, fleet }) => [
    step(`cloud-init schema --config-file ${out}/user-data`, "checks it"),
    ...environmentStep(fleet),
    ...keySteps(fleet, "on the machine: "),
    step("journalctl --namespace millrace -f", "on the machine: the pull, the start and the bench"),
  ],
  packer: ({ out, fleet }) => [
    step(`packer init ${out}`, "fetches the QEMU plugin"),
    step(`cd ${out} && packer build .`, "makes output/*.qcow2; each copy pulls and measures at its first boot"),
    ...environmentStep(fleet),
  ],
  systemd: ({ out, fleet }) => [
    ...environmentStep(fleet),
    step(`sudo ${out}/install.sh`, "on the machine itself, Debian 13 or later"),
    ...keySteps(fleet, ""),
    step("journalctl --namespace millrace -f", "the pull, the start and the bench"),
  ],
  kubernetes: ({ out, fleet: { slug, config } }) => [
    step(`kubectl apply -f ${out}/namespace.yaml`, "first, for the secret"),
    step(
      `kubectl -n millrace create secret generic millrace-${slug} --from-env-file=secret.env`,
      "made of secret.env.example",
    ),
    step(`kubectl apply -k ${out}`, "needs KEDA and the Prometheus operator; with --nodes also LeaderWorkerSet"),
    step(
      `kubectl -n millrace port-forward svc/millrace-${slug} 8000:${config.port}`,
      "then open http://127.0.0.1:8000/report",
    ),
  ],
};

export function nextSteps(
  flags: { readonly out: string },
  fleet: ImageFleet,
  request: ImageRequest,
): readonly NextStep[] {
  return STEPS[request.target]({ out: shellWord(flags.out), fleet, request });
}
