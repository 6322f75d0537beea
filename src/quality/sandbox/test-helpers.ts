/** Code that tries to escape from the jail. A success returns a text with ESCAPED, or the secret. */

export type Attack = readonly [what: string, code: string];

/** Function body that returns the objects a broken context reaches. */
const hostOf = (how: string, use: string): string => `let host: any;
${how}
function attack(target: any) {
  if (host === undefined) throw new Error("no host");
  const load = (name: string) => host.getBuiltinModule(name);
  ${use}
}`;

const BY_IMPORT = `import("node:fs").catch((e: any) => { host = e.constructor.constructor("return process")(); });`;
const BY_OVERFLOW = `function fall(): any { return fall(); }
try { fall(); } catch (e: any) { try { host = e.constructor.constructor("return process")(); } catch {} }`;

/** Attacks on the context through the scored function. */
export const TYPESCRIPT: readonly Attack[] = [
  ["a rejected import(), then a file", hostOf(BY_IMPORT, `return load("fs").readFileSync(target.file, "utf8");`)],
  [
    "a rejected import(), then the environment",
    hostOf(BY_IMPORT, `return host.env.MILLRACE_TEST_SECRET + host.env.PATH;`),
  ],
  [
    "a rejected import(), then a command",
    hostOf(BY_IMPORT, `return "ESCAPED" + load("child_process").execSync("id");`),
  ],
  [
    "a rejected import(), then a worker",
    hostOf(BY_IMPORT, `new (load("worker_threads").Worker)("1", { eval: true }); return "ESCAPED";`),
  ],
  [
    "a rejected import(), then process.binding",
    hostOf(BY_IMPORT, `return "ESCAPED" + Object.keys(host.binding("fs"));`),
  ],
  [
    "a rejected import(), then a signal to the parent",
    hostOf(BY_IMPORT, `host.kill(target.pid, 0); return "ESCAPED";`),
  ],
  [
    "the constructor of an overflow's error",
    hostOf(BY_OVERFLOW, `return load("fs").readFileSync(target.file, "utf8");`),
  ],
  [
    "the constructor of an error of Array.fromAsync or a promise",
    hostOf(
      `Promise.resolve().then(() => { throw null; }).catch(async () => { try { await import(String(1)); } catch (e: any) { host = e.constructor.constructor("return process")(); } });`,
      `return load("fs").readFileSync(target.file, "utf8");`,
    ),
  ],
  [
    "a getter on the result",
    `function attack(target: any) { return { get value() { return (this as any).constructor.constructor("return process")().env.MILLRACE_TEST_SECRET; } }; }`,
  ],
  [
    "a result's toJSON",
    `function attack(target: any) { return { toJSON: (key: any) => toString.constructor("return process.env.MILLRACE_TEST_SECRET")() }; }`,
  ],
  [
    "a proxy for a result",
    `function attack() { return new Proxy({}, { get(_, key) { throw { get stack() { return import("node:fs"); } }; }, ownKeys(target) { return [toString.constructor("return 'ESCAPED' + process.pid")()]; } }); }`,
  ],
  [
    "a polluted prototype",
    `(Object.prototype as any).toJSON = () => "x"; (Array.prototype as any).map = () => process; JSON.stringify = (() => toString.constructor("return 'ESCAPED' + process.pid")()) as any; function attack() { return 1; }`,
  ],
  [
    "a thrown error with hooks",
    `function attack() { const e: any = new Error(); Error.prepareStackTrace = (_, frames) => { host = frames[0].getThis(); return "x"; }; let host: any; e.stack; return "ESCAPED" + host.process.pid; }`,
  ],
  [
    "the callers of a function",
    `function attack() { return "ESCAPED" + (attack as any).caller.constructor("return process.pid")(); }`,
  ],
  ["require and globals", `function attack() { return "ESCAPED" + (require as any)("fs").readdirSync("/"); }`],
  ["eval", `function attack() { return "ESCAPED" + (0, eval)("process.pid"); }`],
  [
    "WebAssembly memory",
    `function attack() { const all = []; for (;;) all.push(new WebAssembly.Memory({ initial: 65536 })); }`,
  ],
  [
    "array buffers without end",
    `function attack() { const all = []; for (;;) all.push(new Uint8Array(1e8).fill(1)); }`,
  ],
  [
    "a wait without end",
    `function attack() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); return "ESCAPED"; }`,
  ],
  ["a huge result", `function attack() { return "x".repeat(2e8); }`],
];

/** Attacks with all of Node's modules; a refusal is an error. */
export const JAILED_NODE: readonly Attack[] = [
  ["reads the secret", `return require("fs").readFileSync(target.file, "utf8");`],
  ["reads users", `return "ESCAPED" + require("fs").readFileSync("/etc/passwd");`],
  ["reads its own status and its parent's", `return "ESCAPED" + require("fs").readdirSync("/proc/" + process.ppid);`],
  ["reads the environment", `return process.env.MILLRACE_TEST_SECRET ?? (process.env.PATH ? "ESCAPED" : "none");`],
  [
    "lists what lies around",
    `const found = require("fs").readdirSync("/", { recursive: true }).map(String);
    // The compiler is there by intent, and may lie in a checkout below /home or /tmp.
    const isCompilers = (path) => path.startsWith(target.compiler + "/") || (target.compiler + "/").startsWith(path + "/");
    return found.some((path) => /passwd|shadow|\\.ssh|^(home|tmp|etc|proc|dev|sys|var)\\b/.test(path) && !path.startsWith("usr") && !isCompilers(path)) ? "ESCAPED" + found : "none";`,
  ],
  [
    "writes",
    `const fs = require("fs"); const folders = [target.folder, "/tmp", "/", "/dev/shm", "/var/tmp", "/usr", process.execPath];
    for (const folder of folders) try { fs.writeFileSync(folder + "/planted", "x"); return "ESCAPED to " + folder; } catch {}
    for (const folder of folders) try { fs.mkdirSync(folder + "/planted"); return "ESCAPED to " + folder; } catch {}`,
  ],
  ["writes to the program", `require("fs").writeFileSync(process.execPath, "x"); return "ESCAPED";`],
  [
    "follows a link",
    `const fs = require("fs"); fs.symlinkSync(target.file, "/link"); return "ESCAPED" + fs.readFileSync("/link", "utf8");`,
  ],
  [
    "climbs up",
    `return require("fs").readFileSync("/../../../.." + target.file, "utf8") + require("fs").readFileSync("../../.." + target.file, "utf8");`,
  ],
  [
    "connects to loopback",
    `return await new Promise((resolve, reject) => require("net").connect(target.port, "127.0.0.1").on("data", (data) => resolve("ESCAPED" + data)).on("error", reject));`,
  ],
  [
    "sends a datagram",
    `const socket = require("dgram").createSocket("udp4"); return await new Promise((resolve, reject) => socket.send("x", target.port, "127.0.0.1", (error) => (error ? reject(error) : resolve("ESCAPED"))));`,
  ],
  [
    "sees interfaces",
    `return Object.values(require("os").networkInterfaces()).flat().length > 0 ? "ESCAPED" : "none";`,
  ],
  ["resolves a name", `return "ESCAPED" + await require("dns").promises.resolve("example.com");`],
  ["kills the parent", `process.kill(target.pid, "SIGKILL"); return "ESCAPED";`],
  [
    "kills everybody",
    `try { process.kill(process.ppid, "SIGKILL"); process.kill(1, "SIGKILL"); } catch {} process.kill(-1, 0); return "none";`,
  ],
  ["becomes root", `process.setuid(0); return "ESCAPED";`],
  ["runs a shell", `return "ESCAPED" + require("child_process").execSync("id", { shell: "/bin/sh" });`],
  [
    "runs Nodes without end",
    `const all = []; for (let i = 0; i < 12; i++) all.push(require("child_process").spawnSync(process.execPath, ["-e", "console.log('child')"], { timeout: 500 }).stdout?.toString());
    return all.filter((text) => text?.includes("child")).length > 3 ? "ESCAPED" : "none";`,
  ],
  [
    "starts threads without end",
    `const { Worker } = require("worker_threads"); for (let i = 0; i < 100; i++) new Worker("setInterval(() => {}, 1000)", { eval: true });
    await new Promise((resolve) => setTimeout(resolve, 2000)); return "ESCAPED";`,
  ],
  [
    "fills the memory",
    `const all = []; for (let i = 0; i < 40; i++) all.push(Buffer.alloc(1 << 26, 1)); return "ESCAPED";`,
  ],
  [
    "fills WebAssembly's memory",
    `const all = []; for (let i = 0; i < 40; i++) { const memory = new WebAssembly.Memory({ initial: 1024 }); new Uint8Array(memory.buffer).fill(1); all.push(memory); } return "ESCAPED";`,
  ],
  ["writes without end", `for (;;) require("fs").writeSync(1, "x".repeat(65536));`],
  [
    "complains without end",
    `for (let i = 0; i < 1000; i++) require("fs").writeSync(2, "x".repeat(65536)); return "none";`,
  ],
  ["loads a library", `process.dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6"); return "ESCAPED";`],
];

/** System calls from Python, none of which may have an effect. */
const BY_SYSTEM_CALL = (call: string): string => `import ctypes, os
def attack(target):
    libc = ctypes.CDLL(None, use_errno=True)
    result = ${call}
    if result == 0:
        return "ESCAPED"
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))`;

/** A kernel call by its number on this machine. */
const BY_NUMBER = (x64: number, arm64: number, rest: string): string =>
  BY_SYSTEM_CALL(`0 if libc.syscall(${process.arch === "arm64" ? arm64 : x64}, ${rest}) >= 0 else -1`);

const inPython = (...lines: string[]): string =>
  [
    "import os, sys, socket, subprocess, signal, threading, glob",
    "def attack(target):",
    ...lines.map((line) => `    ${line}`),
  ].join("\n");

const FROM_FRAMES = `def attack(target):
    def walk():
        yield g.gi_frame.f_back.f_back.f_globals
    g = walk()
    for names in g:
        return names["sys"].modules["os"].environ["MILLRACE_TEST_SECRET"] + names["open"](target["file"]).read()`;

export const PYTHON: readonly Attack[] = [
  ["reads a file", inPython('return open(target["file"]).read()')],
  ["reads users", inPython('return "ESCAPED" + open("/etc/passwd").read()')],
  ["reads the environment", inPython('return os.environ["MILLRACE_TEST_SECRET"] + os.environ["PATH"]')],
  [
    "reads another's environment",
    inPython('return "ESCAPED" + str(glob.glob("/proc/*")[0]) + open(f"/proc/{os.getppid()}/environ").read()'),
  ],
  [
    "reaches subclasses",
    `def attack(target):\n    return [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == "FileLoader"][0]("x", "x").get_data(target["file"]).decode()`,
  ],
  ["reaches a generator's frame", FROM_FRAMES],
  [
    "reaches a format's globals",
    `def attack(target):\n    return "{0.__globals__[os].environ[MILLRACE_TEST_SECRET]}".format(attack)`,
  ],
  [
    "writes",
    inPython(
      'for folder in (target["folder"], "/tmp", "/", "/dev/shm", "/var/tmp", sys.prefix, os.path.dirname(os.__file__)):',
      "    try:",
      '        open(folder + "/planted", "w").write("x")',
      '        return "ESCAPED"',
      "    except OSError:",
      "        pass",
    ),
  ],
  ["removes", inPython('os.remove(target["file"])', 'return "ESCAPED"')],
  ["links", inPython('os.symlink(target["file"], "/link")', 'return open("/link").read()')],
  [
    "connects to loopback",
    inPython(
      's = socket.create_connection(("127.0.0.1", target["port"]), 2)',
      'return "ESCAPED" + s.recv(100).decode()',
    ),
  ],
  [
    "connects to an abstract socket",
    inPython("s = socket.socket(socket.AF_UNIX)", 's.connect("\\0/tmp/.X11-unix/X0")', 'return "ESCAPED"'),
  ],
  ["sends raw packets", inPython("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", 'return "ESCAPED"')],
  ["forks", inPython("pid = os.fork()", "if pid == 0:", "    os._exit(0)", 'return "ESCAPED"')],
  ["starts threads", inPython("t = threading.Thread(target=print)", "t.start()", 'return "ESCAPED"')],
  ["runs a shell", inPython('return "ESCAPED" + subprocess.check_output(["/bin/sh", "-c", "id"]).decode()')],
  [
    "runs itself",
    inPython(
      'os.execv(sys.executable, [sys.executable, \'-c\', \'print("ESCAPED" if __import__("os").path.exists("/etc") else 1)\'])',
    ),
  ],
  ["kills the parent", inPython('os.kill(target["pid"], signal.SIGKILL)', 'return "ESCAPED"')],
  [
    "kills its group and the first process",
    inPython(
      "os.kill(os.getppid(), 9) if os.getppid() else os.kill(1, 9)",
      "os.kill(1, 9)",
      "os.killpg(0, 0)",
      "return 1",
    ),
  ],
  ["leaves the session and sleeps", inPython("os.setsid()", "import time", "time.sleep(3600)", 'return "ESCAPED"')],
  [
    "ignores signals and loops",
    inPython(
      "for s in range(1, 64):",
      "    try: signal.signal(s, signal.SIG_IGN)",
      "    except Exception: pass",
      "while True: pass",
    ),
  ],
  [
    "raises its limits",
    inPython("import resource", "resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))", 'return "ESCAPED"'),
  ],
  ["becomes root", inPython("os.setuid(0)", 'return "ESCAPED"')],
  ["changes root", inPython('os.chroot("/usr")', 'return "ESCAPED"')],
  ["fills the memory", inPython("return 'ESCAPED' + str(len(bytearray(1 << 30)))")],
  [
    "fills shared memory",
    inPython("import mmap", "m = [mmap.mmap(-1, 1 << 28) for _ in range(8)]", 'return "ESCAPED"'),
  ],
  ["fills a file in memory", inPython('f = os.memfd_create("x")', "os.write(f, b'x' * 100)", 'return "ESCAPED"')],
  ["opens files without end", inPython("f = [os.dup(0) for _ in range(1000)]", 'return "ESCAPED"')],
  ["connects to the hypervisor", inPython("socket.socket(40, socket.SOCK_STREAM)", 'return "ESCAPED"')],
  ["reads the session's keys", BY_NUMBER(250, 219, "0, -3, 0")],
  ["adds a key", BY_NUMBER(248, 217, 'b"user", b"planted", b"x", 1, -3')],
  ["loads a program into the kernel", BY_NUMBER(321, 280, "0, ctypes.create_string_buffer(128), 128")],
  ["makes a ring of calls", BY_NUMBER(425, 425, "4, ctypes.create_string_buffer(256)")],
  ["reads the first process's memory", BY_NUMBER(310, 270, "1, None, 0, None, 0, 0")],
  [
    "has the host's handler take a crash",
    inPython("import resource", "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", 'return "ESCAPED"'),
  ],
  ["keeps memory that no limit counts", BY_NUMBER(29, 194, "0, 1 << 28, 0o1600")],
  ["keeps messages", BY_NUMBER(68, 186, "0, 0o1600")],
  ["reads the kernel's log", BY_NUMBER(103, 116, "3, ctypes.create_string_buffer(4096), 4096")],
  ["traces the first process", BY_SYSTEM_CALL("libc.ptrace(16, 1, None, None)")],
  ["makes a user namespace", BY_SYSTEM_CALL("libc.unshare(0x10000000)")],
  ["makes a mount namespace", BY_SYSTEM_CALL("libc.unshare(0x00020000)")],
  ["mounts proc", BY_SYSTEM_CALL('libc.mount(b"proc", b"/usr", b"proc", 0, None)')],
  ["makes its root writable", BY_SYSTEM_CALL('libc.mount(None, b"/", None, 0x20 | 0x1000, None)')],
  ["unmounts", BY_SYSTEM_CALL('libc.umount2(b"/usr", 2)')],
  ["pivots", BY_SYSTEM_CALL('libc.syscall(155, b"/", b"/")')],
  ["renames the host", BY_SYSTEM_CALL('libc.sethostname(b"planted", 7)')],
  ["makes a device", BY_SYSTEM_CALL('libc.mknod(b"/planted", 0o60666, 0x800)')],
  ["joins another's namespace", BY_SYSTEM_CALL("libc.setns(libc.syscall(434, 1, 0), 0x10000000)")],
  [
    "opens a file by its handle",
    BY_SYSTEM_CALL("min(0, libc.open_by_handle_at(3, ctypes.create_string_buffer(128), 0))"),
  ],
];
