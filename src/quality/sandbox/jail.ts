/**
 * The jail around generated code on Linux, set up by util-linux without privileges: namespaces for users, files,
 * processes, network and messages; a root folder with only the files that the program must read; and kernel limits for
 * the rest. The code may do anything inside: it reaches nothing outside, and all its processes end with the namespace's
 * first process, which is ours.
 *
 * As root, the outer namespaces need no user namespace, and the code runs as nobody, since the kernel does not limit
 * root's processes.
 */
import { execFileSync } from "node:child_process";
import { dirname } from "node:path";

export interface ConfinedProgram {
  readonly command: string;
  readonly args: readonly string[];
  /**
   * Files and folders that the program must read, including the command and its libraries. Paths inside are the same.
   */
  readonly reads: readonly string[];
  readonly limits: Limits;
}

interface Limits {
  /** Most processes and threads. */
  readonly numThreads: number;
  /** Private memory of a process, in bytes. */
  readonly dataBytes: number;
  /** Address space of a process in bytes, for programs that reserve none. */
  readonly addressBytes?: number;
  readonly cpuSeconds: number;
}

/** Mount point of the jail's root, in its own mount namespace. No program reads files below it. */
const ROOT = "/sys";
const NOBODY = 65_534;
/** The system's folders come first, so that the environment cannot replace the tools. */
const TOOL_FOLDERS = "/usr/sbin:/usr/bin:/sbin:/bin";
const MAX_OPEN_FILES = 64;

/** First bytes of the output: the jail is ready, and the program's output follows. */
export const READY = "ready\n";

/**
 * The shell stays the first process of its namespace, outside the new root: when it is killed, the kernel ends all
 * others. The limit of processes counts all of a user's processes in the user namespace where it is set. So each jail
 * has a user namespace for the limit, and the innermost one inside it.
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

/**
 * CAP_SYS_ADMIN is kept until the last namespace is entered, which drops it: some systems let only root create
 * namespaces.
 */
const DROP_ROOT = `--reuid=${NOBODY} --regid=${NOBODY} --clear-groups --inh-caps=-all,+sys_admin --ambient-caps=-all,+sys_admin`;

/** @param seconds time limit of the jail, which also holds if this process ends */
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
  // With a limit of one byte the kernel calls no crash handler; with 0 it does.
  limits.push("--fsize=0", "--core=1", "--memlock=0", "--msgqueue=0", "--sigpending=64");
  if (addressBytes !== undefined) limits.push(`--as=${addressBytes}`);
  return limits.join(" ");
}

/** Folders of libraries, because the jail lacks the loader's cache. */
const libraryFolders = (paths: readonly string[]): string =>
  [...new Set(paths.filter((path) => /\.so(\.|$)/.test(path)).map(dirname))].join(":");

/** The shared libraries that these files load, including the loader. Empty for programs without any. */
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
