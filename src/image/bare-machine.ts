/** A machine without containers: its files, and the steps that install it, once for systemd, cloud-init and Packer. Debian 13 or later, whose Node is new enough. */
import type { ImageFleet, PackageSource } from "./image-request.js";
import {
  BOOT_ARGS,
  CONFIG,
  ENGINE,
  ENGINE_SOURCES,
  ENVIRONMENT,
  HEALTH_ARGS,
  npmInstall,
  STATE,
  STOP_SECONDS,
} from "./machine.js";

interface MachineFile {
  readonly path: string;
  readonly text: string;
}

const NODE = "/usr/bin/node";

const lines = (...all: readonly string[]): string => `${all.join("\n")}\n`;

/** What the service may do is what it needs: its folder, the network, and GPUs where there are some. */
function serviceUnit({ numGpus }: ImageFleet): string {
  return lines(
    "[Unit]",
    "Description=millrace: an inference server for open-weight language models",
    "Wants=network-online.target",
    "After=network-online.target",
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    "User=millrace",
    "Group=millrace",
    "StateDirectory=millrace",
    "StateDirectoryMode=0750",
    `WorkingDirectory=${STATE}`,
    ...Object.entries(ENVIRONMENT).map(([name, value]) => `Environment=${name}=${value}`),
    "EnvironmentFile=-/etc/millrace/environment",
    `ExecStart=${[NODE, ...BOOT_ARGS].join(" ")}`,
    "ExecReload=/bin/kill -HUP $MAINPID",
    "Restart=on-failure",
    "RestartSec=10",
    `TimeoutStopSec=${STOP_SECONDS}`,
    // Stopped before there was a fleet.
    "SuccessExitStatus=143",
    // Only the server gets the first signal: it ends its engines when their requests are done.
    "KillMode=mixed",
    "LimitNOFILE=65536",
    // A journal of its own, which journald keeps small.
    "LogNamespace=millrace",
    "UMask=0077",
    "NoNewPrivileges=true",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=true",
    "PrivateTmp=true",
    ...(numGpus === 0 ? ["PrivateDevices=true"] : []),
    "ProtectKernelTunables=true",
    "ProtectKernelModules=true",
    "ProtectKernelLogs=true",
    "ProtectControlGroups=true",
    "ProtectClock=true",
    "ProtectHostname=true",
    "LockPersonality=true",
    "RestrictSUIDSGID=true",
    "RestrictRealtime=true",
    "RestrictNamespaces=true",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallArchitectures=native",
    "",
    "[Install]",
    "WantedBy=multi-user.target",
  );
}

/** Failed checks show in `systemctl --failed` and in the journal; engines are restarted by the fleet itself. */
const HEALTH_UNIT = lines(
  "[Unit]",
  "Description=millrace takes requests",
  "Requisite=millrace.service",
  "After=millrace.service",
  "",
  "[Service]",
  "Type=oneshot",
  "User=millrace",
  "Group=millrace",
  `ExecStart=${[NODE, ...HEALTH_ARGS].join(" ")}`,
  "TimeoutStartSec=30",
  "LogNamespace=millrace",
  "NoNewPrivileges=true",
  "ProtectSystem=strict",
  "ProtectHome=true",
  "PrivateTmp=true",
);

const HEALTH_TIMER = lines(
  "[Unit]",
  "Description=Ask millrace every minute whether it takes requests",
  "",
  "[Timer]",
  "OnActiveSec=5min",
  "OnUnitInactiveSec=1min",
  "",
  "[Install]",
  "WantedBy=timers.target",
);

const JOURNAL = lines("[Journal]", "SystemMaxUse=200M", "SystemMaxFileSize=20M", "MaxRetentionSec=1month");

export function machineFiles(fleet: ImageFleet): MachineFile[] {
  return [
    { path: CONFIG, text: fleet.text },
    { path: "/etc/systemd/system/millrace.service", text: serviceUnit(fleet) },
    { path: "/etc/systemd/system/millrace-health.service", text: HEALTH_UNIT },
    { path: "/etc/systemd/system/millrace-health.timer", text: HEALTH_TIMER },
    { path: "/etc/systemd/journald@millrace.conf", text: JOURNAL },
    { path: "/etc/sysusers.d/millrace.conf", text: `u millrace - "millrace" ${STATE}\n` },
  ];
}

/** GPU engines compile small kernels when they run; the drivers are the machine's own. */
export function debianSteps({ engine }: ImageFleet): string[][] {
  const forEngine = engine === "millrace" ? [] : ["python3-venv", "python3-dev", "gcc", "g++"];
  const packages = ["ca-certificates", "nodejs", "npm", ...forEngine];
  return [
    ["apt-get", "update"],
    ["apt-get", "install", "--yes", "--no-install-recommends", ...packages],
  ];
}

/**
 * When files and Debian's packages are there: each step is a program and its arguments, which no shell takes apart.
 *
 * @param startsNow or at the next boot
 */
export function installSteps(
  { engine }: ImageFleet,
  packages: readonly PackageSource[],
  startsNow: boolean,
  packageFolder = "packages",
): string[][] {
  const specs = packages.map((each) => (each.kind === "file" ? `${packageFolder}/${each.name}` : each.spec));
  const engineSteps =
    engine === "millrace"
      ? []
      : [
          ["python3", "-m", "venv", ENGINE],
          [`${ENGINE}/bin/pip`, "install", "--no-cache-dir", ENGINE_SOURCES[engine].requirement],
        ];
  return [
    ["systemd-sysusers", "/etc/sysusers.d/millrace.conf"],
    npmInstall(specs.map((spec) => (spec.startsWith("packages/") ? `./${spec}` : spec))),
    ...engineSteps,
    ["systemctl", "daemon-reload"],
    ["systemctl", "enable", ...(startsNow ? ["--now"] : []), "millrace.service", "millrace-health.timer"],
  ];
}
