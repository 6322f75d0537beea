/**
 * The walls around generated code on Linux, put up by util-linux without any privilege: namespaces of its own for users, files, processes,
 * network and messages; a root folder that holds only what the program itself must read; limits of the kernel for the rest. What the code does
 * inside does not matter then: there is nothing to reach, and all of it ends with the namespace's first process, which is ours.
 *
 * As root, the outer walls need no user namespace, and the code runs as nobody: the kernel counts root's processes against no limit.
 */
import { execFileSync } from "node:child_process";
import { dirname } from "node:path";

export interface ConfinedProgram {
  readonly command: string;
  readonly args: readonly string[];
  /** Files and folders it must read, the command and its libraries among them. They have the same paths inside. */
  readonly reads: readonly string[];
  readonly limits: Limits;
}

interface Limits {
  /** Processes and threads. */
  readonly numThreads: number;
  /** Private memory of a process. */
  readonly dataBytes: number;
  /** Address space of a process, for programs that reserve none. */
  readonly addressBytes?: number;
  readonly cpuSeconds: number;
}

/** Where the jail's root is put together, in a mount namespace that nobody else sees. Nothing that a program reads lies in it. */
const ROOT = "/sys";
const NOBODY = 65_534;
/** The tools' own folders first, so that the environment does not say what they are. */
const TOOL_FOLDERS = "/usr/sbin:/usr/bin:/sbin:/bin";
const MAX_OPEN_FILES = 64;

/** The first bytes of the output: the walls stand, and what follows is the program's. */
export const READY = "ready\n";

/**
 * The shell stays as the first process of its namespace, outside the new root: when it is killed, the kernel ends all the others. The limit of
 * processes holds for all that a user has in the user namespace in which it is set, so each jail has one for that, within which is the last.
 */
const SCRIPT = `
set -e
umask 022
echo 1000 2> /dev/null > /proc/self/oom_score_adj || :
root=$1 drop=$2 limits=$3 environment=$4
shift 4
mount -t tmpfs -o mode=755,nosuid,nodev,size=1m,nr_inodes=4k none "$root"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then
    mkdir -p "$root$1"
  else
    [ -d "$root\${1%/*}" ] || mkdir -p "$root\${1%/*}"
    : > "$root$1"
  fi
  mount -o bind,ro,nosuid,nodev "$1" "$root$1"
  shift
done
shift
mount -o remount,bind,ro,nosuid,nodev "$root"
printf '${READY.trim()}\\n'
setsid setpriv $drop --no-new-privs unshare --user --map-root-user \\
  prlimit $limits env -i UV_THREADPOOL_SIZE=1 "$environment" \\
  unshare --user --map-user=${NOBODY} --map-group=${NOBODY} --root="$root" --wd=/ "$@"
exit $?
`;

/** Keeping CAP_SYS_ADMIN until the last namespace is entered, which drops it, lets systems where only root may make namespaces do so. */
const DROP_ROOT = `--reuid=${NOBODY} --regid=${NOBODY} --clear-groups --inh-caps=-all,+sys_admin --ambient-caps=-all,+sys_admin`;

/** @param seconds after which the jail ends even if this process is no more */
export function jailed(
  program: ConfinedProgram,
  seconds: number,
): { readonly command: string; readonly args: string[] } {
  const isRoot = process.geteuid?.() === 0;
  const namespaces = ["--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"];
  const args = ["--signal=KILL", String(seconds), "unshare"];
  if (!isRoot) args.push("--user", "--map-root-user");
  args.push(...namespaces, "sh", "-c", SCRIPT, "sh", ROOT, isRoot ? DROP_ROOT : "", limitsOf(program.limits));
  args.push(
    `LD_LIBRARY_PATH=${libraryFolders(program.reads)}`,
    ...program.reads,
    "--",
    program.command,
    ...program.args,
  );
  return { command: "timeout", args };
}

export const toolEnvironment = (): NodeJS.ProcessEnv => ({ PATH: `${TOOL_FOLDERS}:${process.env.PATH ?? ""}` });

function limitsOf({ numThreads, dataBytes, addressBytes, cpuSeconds }: Limits): string {
  const limits = [`--nproc=${numThreads}`, `--data=${dataBytes}`, `--cpu=${cpuSeconds}`, `--nofile=${MAX_OPEN_FILES}`];
  // One byte is the limit at which the kernel calls no handler of crashes either; at none it does.
  limits.push("--fsize=0", "--core=1", "--memlock=0", "--msgqueue=0", "--sigpending=64");
  if (addressBytes !== undefined) limits.push(`--as=${addressBytes}`);
  return limits.join(" ");
}

/** The loader's cache of folders stays outside. */
const libraryFolders = (paths: readonly string[]): string =>
  [...new Set(paths.filter((path) => /\.so(\.|$)/.test(path)).map(dirname))].join(":");

/** The shared libraries that these files load, the loader among them. Empty for programs that need none. */
export function librariesOf(files: readonly string[]): string[] {
  try {
    const text = execFileSync("ldd", [...files], {
      encoding: "utf8",
      env: toolEnvironment(),
      stdio: ["ignore", "pipe", "ignore"],
    });
    return [...new Set([...text.matchAll(/^\s+(?:\S+ => )?(\/\S+) \(0x/gm)].map((match) => match[1] as string))];
  } catch {
    return [];
  }
}
