/**
 * A machine without containers: its files and installation steps, shared by systemd, cloud-init and Packer. Needs
 * Debian 13 or later for its Node.
 */
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
import { driverInImage, driverOnMachine } from "./nvidia.js";

interface MachineFile {
  readonly path: string;
  readonly text: string;
}

const NODE = "/usr/bin/node";

const lines = (...all: readonly string[]): string => `${all.join("\n")}\n`;

/** The service may use only its own folder, the network, and the GPUs if there are any. */
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
    // The exit code of a machine without its GPU, which a restart does not cure.
    "RestartPreventExitStatus=78",
    `TimeoutStopSec=${STOP_SECONDS}`,
    // A stop during the boot, before the fleet runs, counts as a clean exit.
    "SuccessExitStatus=143",
    // Only the server gets the first signal: it stops its engines after their running requests.
    "KillMode=mixed",
    "LimitNOFILE=65536",
    // A separate journal, whose size journald limits.
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

/** Failed checks appear in `systemctl --failed` and in the journal. The fleet restarts its engines itself. */
const HEALTH_UNIT = lines(
  "[Unit]",
  "Description=Check that millrace takes requests",
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
  "Description=Check every minute that millrace takes requests",
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

const NEEDED = ["ca-certificates", "nodejs"];
/** GPU engines compile small kernels at run time, so they need a compiler. */
const FOR_ENGINES = ["python3-venv", "python3-dev", "gcc", "g++"];

/** @param hasNpm true for a machine that installs millrace itself; a disk gets millrace during its build */
export const debianPackages = ({ engine }: ImageFleet, hasNpm: boolean): readonly string[] => [
  ...NEEDED,
  ...(hasNpm ? ["npm"] : []),
  ...(engine === "millrace" ? [] : FOR_ENGINES),
];

/**
 * @param isHere whether the machine has its GPU, so that the driver is installed for it; false on a machine that only
 * builds an image
 */
export function debianSteps(fleet: ImageFleet, isHere = true): readonly (readonly string[])[] {
  const driver = isHere ? driverOnMachine : driverInImage;
  return [
    ...(fleet.numGpus > 0 ? driver : []),
    ["apt-get", "update"],
    ["apt-get", "install", "--yes", "--no-install-recommends", ...debianPackages(fleet, true)],
  ];
}

/** Installs the engine with pip, in its own folder. */
export function engineSteps({ engine }: ImageFleet): string[][] {
  if (engine === "millrace") return [];
  return [
    ["python3", "-m", "venv", ENGINE],
    [`${ENGINE}/bin/pip`, "install", "--no-cache-dir", ENGINE_SOURCES[engine].requirement],
  ];
}

export const usersStep = ["systemd-sysusers", "/etc/sysusers.d/millrace.conf"];

/** @param startsNow start the service now instead of at the next boot */
export const enableStep = (startsNow: boolean): string[] => [
  "systemctl",
  "enable",
  ...(startsNow ? ["--now"] : []),
  "millrace.service",
  "millrace-health.timer",
];

/**
 * The steps after files and Debian packages are in place. Each step is a program with its arguments, run without a
 * shell.
 *
 * @param startsNow start the service now instead of at the next boot
 */
export function installSteps(
  fleet: ImageFleet,
  packages: readonly PackageSource[],
  startsNow: boolean,
  packageFolder = "packages",
): string[][] {
  const specs = packages.map((each) => (each.kind === "file" ? `${packageFolder}/${each.name}` : each.spec));
  return [
    usersStep,
    npmInstall(specs.map((spec) => (spec.startsWith("packages/") ? `./${spec}` : spec))),
    ...engineSteps(fleet),
    ["systemctl", "daemon-reload"],
    enableStep(startsNow),
  ];
}
