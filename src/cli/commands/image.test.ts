/** `millrace image render` from arguments to files; each wrong input gets an error with a code. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { packageRoot, packageVersion } from "../../core/package-root.js";
import { TARGETS } from "../../image/image-request.js";
import { packedPackages, staleWarning } from "../flags/image-flags.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-image-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string): string => join(folder, name);
/** Most tests use a version as the package, since the files of `npm run package` may be missing here. */
const image = (...args: readonly string[]) => {
  const asksForPackages = !args.includes("--package") && !args.includes("kubernetes");
  return runMain("image", "render", ...args, ...(asksForPackages ? ["--package", "0.1.0"] : []));
};

const VALID = "models: [{name: m, model: /m.gguf, options: {max-num-seqs: 4}}]\n";
writeFileSync(at("ok.yaml"), VALID);
writeFileSync(at("millrace-0.1.0.tgz"), "a package");

test("files are written as listed, and the next steps are shown", async () => {
  const args = ["--target", "systemd", "--preset", "cpu-8b", "--model", "hf:org/repo:Q4_K_M", "--out", at("told")];
  const { stdout, stderr, exitCode } = await image(...args, "--package", at("millrace-0.1.0.tgz"));
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
  expect(stdout).toMatch(/^install\.sh +[\d.]+ /m);
  expect(stdout).toMatch(/^ {2}# on the machine itself.*\n {2}sudo \S+\/told\/install\.sh$/m);
  expect(statSync(at("told/install.sh")).mode & 0o777).toBe(0o755);
  expect(readFileSync(at("told/packages/millrace-0.1.0.tgz"), "utf8")).toBe("a package");
  expect(readFileSync(at("told/root/etc/millrace/millrace.yaml"), "utf8")).toMatch(/model: hf:org\/repo:Q4_K_M/);
});

test("by default the packed millrace and its kernels are included, never a name of the registry", async () => {
  expect(() => packedPackages(folder, "9.9.9")).toThrow(
    /invalid_option|expected the packed millrace at .*millrace-9\.9\.9\.tgz/,
  );
  writeFileSync(at("millrace-9.9.9.tgz"), "main");
  expect(() => packedPackages(folder, "9.9.9")).toThrow(/millrace-linux-x64-9\.9\.9\.tgz/);
  writeFileSync(at("millrace-linux-x64-9.9.9.tgz"), "kernels");
  expect(packedPackages(folder, "9.9.9").map(({ kind }) => kind)).toEqual(["file", "file"]);
  const [packed] = packedPackages(folder, "9.9.9");
  mkdirSync(at("compiled/src"), { recursive: true });
  writeFileSync(at("compiled/src/main.js"), "");
  utimesSync(at("compiled/src/main.js"), 1, 1);
  expect(staleWarning([packed!], at("compiled"))).toBeUndefined();
  utimesSync(at("compiled/src/main.js"), 2e9, 2e9);
  expect(staleWarning([packed!], at("compiled"))).toMatch(/millrace-9\.9\.9\.tgz is older .*npm run package/);
  const bare = await runMain(
    "image",
    "render",
    "--target",
    "cloud-init",
    "--preset",
    at("ok.yaml"),
    "--out",
    at("user-data"),
  );
  expect(bare.stderr).toMatch(/error \[invalid_option\]: expected --package with https URLs/);
});

test("--json prints the same; the version that is asked for is installed", async () => {
  const out = at("with space's");
  const { stdout } = await image("--target", "docker", "--preset", at("ok.yaml"), "--out", out, "--json");
  const { target, files, next } = JSON.parse(stdout);
  expect(target).toBe("docker");
  expect(files.map(({ path }: { path: string }) => path)).toEqual([".dockerignore", "Dockerfile", "millrace.yaml"]);
  expect(next[1].command).toMatch(/^docker run -d --init --stop-timeout 330 /);
  expect(next[0].command).toBe(`docker build -t millrace-ok '${out.replaceAll("'", "'\\''")}'`);
  expect(readFileSync(join(out, "Dockerfile"), "utf8")).toContain(`"millrace@${packageVersion()}"`);
});

test("a folder with files is not touched, unless --force is given", async () => {
  mkdirSync(at("full"));
  writeFileSync(at("full/mine"), "mine");
  const args = ["--target", "cloud-init", "--preset", at("ok.yaml"), "--out", at("full")];
  expect((await image(...args)).stderr).toMatch(/error \[invalid_option\]: expected an empty folder/);
  expect(readdirSync(at("full"))).toEqual(["mine"]);
  expect((await image(...args, "--force")).exitCode).toBe(0);
  expect(readdirSync(at("full")).toSorted()).toEqual(["mine", "user-data"]);
});

test("presets render for every target if images contain their engine", async () => {
  const presets = readdirSync(join(packageRoot(), "presets")).map((name) => name.replace(".yaml", ""));
  const sample = ["h100-8b", "a100-80-70b", "rtx4090-70b", "l40s-32b", "cpu-8b"];
  expect(presets).toEqual(expect.arrayContaining(sample));
  for (const preset of sample) {
    for (const target of TARGETS) {
      const out = at(`all/${preset}/${target}`);
      const image_ = target === "kubernetes" ? ["--image", "registry.example/millrace:1"] : [];
      const { stderr } = await image("--target", target, "--preset", preset, "--out", out, ...image_);
      expect(stderr).toBe("");
      expect(existsSync(out)).toBe(true);
    }
  }
});

describe("wrong inputs have clear errors with codes", () => {
  const FILES: Readonly<Record<string, string>> = {
    "broken.yaml": "models: [",
    "empty.yaml": "",
    "no-models.yaml": "models: []\n",
    "unknown-key.yaml": "models: [{name: m, modle: /m.gguf}]\n",
    "impossible.yaml": "models: [{name: m, model: /m.gguf, options: {max-num-seqs: 0}}]\n",
    "two-models.yaml": "models: [{name: a, model: /a.gguf}, {name: b, model: /b.gguf}]\n",
    "no-seats.yaml": "models: [{name: m, model: /m.gguf}]\n",
    "relative.yaml": "models: [{name: m, model: models/m.gguf}]\n",
    "gguf-on-vllm.yaml": "models: [{name: m, engine: vllm, model: m-awq, options: {max-num-seqs: 4}}]\n",
    "vllm.yaml": "models: [{name: m, engine: vllm, model: org/m, options: {max-num-seqs: 4}}]\n",
    "ollama.yaml": "models: [{name: m, engine: ollama, model: llama3}]\n",
    "two-engines.yaml": "models: [{name: a, engine: vllm, model: o/a}, {name: b, engine: sglang, model: o/b}]\n",
    "attached.yaml": "models: [{name: m, engine: openai, attach: [{url: 'http://h:1'}]}]\n",
    "key.yaml": `api-keys: [{tenant: t, key: sk-secret}]\n${VALID}`,
    "admin-key.yaml": `admin-key: sk-secret\n${VALID}`,
    "operator-key.yaml": `operators: [{name: ann, role: viewer, key: sk-secret}]\n${VALID}`,
    "bad-variable.yaml": `admin-key: "env:A B"\n${VALID}`,
    "token.yaml": "models: [{name: m, model: /m.gguf, env: {HF_TOKEN: hf_secret}}]\n",
    "key-flag.yaml": "models: [{name: m, model: /m.gguf, args: [--api-key, sk-secret]}]\n",
    "tls.yaml": `ssl-certfile: /tls/cert.pem\nssl-keyfile: /tls/key.pem\n${VALID}`,
    "relative-tls.yaml": `ssl-certfile: cert.pem\nssl-keyfile: /tls/key.pem\n${VALID}`,
    "attach-key.yaml": "models: [{name: m, engine: openai, attach: [{url: 'http://h:1', api-key: sk-secret}]}]\n",
  };
  for (const [name, content] of Object.entries(FILES)) writeFileSync(at(name), content);
  writeFileSync(at("it's.tgz"), "a package");
  writeFileSync(at("file"), "");
  mkdirSync(at("folder.tgz"));
  const on = (target: string, preset = "ok.yaml"): string[] => ["--target", target, "--preset", at(preset)];
  const OK = on("systemd");
  const K8S = [...on("kubernetes"), "--image", "r.example/m:1"];
  const CASES: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["no target", ["--preset", at("ok.yaml")], /invalid_option.*--target/],
    ["an unknown target", [...on("vagrant")], /invalid_option.*one of docker, compose/],
    ["no preset", ["--target", "docker"], /invalid_option.*--preset/],
    ["an unknown GPU's preset", ["--target", "docker", "--preset", "h300-8b"], /invalid_option.*got "h300-8b"/],
    ["a preset that leads out", ["--target", "docker", "--preset", ".."], /invalid_option.*got "\.\."/],
    ["a missing file", [...on("docker", "none.yaml")], /file_unreadable.*got no file of that name/],
    ["a folder as preset", ["--target", "docker", "--preset", `${folder}/`], /file_unreadable.*got a folder/],
    ["a file that is no YAML", on("docker", "broken.yaml"), /config_syntax/],
    ["an empty file", on("docker", "empty.yaml"), /config_value/],
    ["no models", on("docker", "no-models.yaml"), /config_value/],
    ["a misspelt key", on("docker", "unknown-key.yaml"), /config_unknown_key/],
    ["zero seats", on("docker", "impossible.yaml"), /config_value/],
    ["a relative path", on("docker", "relative.yaml"), /invalid_option.*"models\/m\.gguf"/],
    ["a bare name for vLLM", on("docker", "gguf-on-vllm.yaml"), /invalid_option.*"m-awq"/],
    ["an engine without an image", on("docker", "ollama.yaml"), /invalid_option.*vllm, sglang, got ollama/],
    ["two GPU engines", on("docker", "two-engines.yaml"), /invalid_option.*got vllm, sglang/],
    ["a model of the hub without a repository", [...OK, "--model", "hf:org"], /invalid_option.*"hf:org"/],
    ["an empty model", [...OK, "--model", ""], /config_value/],
    ["a model for two", [...on("docker", "two-models.yaml"), "--model", "/x"], /invalid_option.*2 models/],
    [
      "a model for one that is attached",
      [...on("docker", "attached.yaml"), "--model", "/x"],
      /invalid_option.*attached/,
    ],
    ["the bundled model on vLLM", [...on("docker", "vllm.yaml"), "--model", "bundled"], /invalid_option.*got vllm/],
    ["a key in the file", on("compose", "key.yaml"), /config_secret.*api-keys\[0\]\.key/],
    ["an administrator's key in the file", on("compose", "admin-key.yaml"), /config_secret.*admin-key/],
    ["an operator's key", on("compose", "operator-key.yaml"), /config_secret.*operators\[0\]\.key/],
    ["a variable that is none", on("compose", "bad-variable.yaml"), /config_secret.*admin-key/],
    ["a token in the file", on("compose", "token.yaml"), /config_secret.*HF_TOKEN/],
    ["a key among the arguments", on("compose", "key-flag.yaml"), /config_secret.*--api-key/],
    ["an attached server's key in the file", on("compose", "attach-key.yaml"), /config_secret.*attach\[0\]/],
    ["a certificate for a container", on("compose", "tls.yaml"), /invalid_option.*no ssl-certfile.*container/],
    ["a certificate at a relative path", on("systemd", "relative-tls.yaml"), /invalid_option.*absolute.*"cert\.pem"/],
    ["a package that is not there", [...OK, "--package", at("none.tgz")], /file_unreadable.*none\.tgz/],
    ["a folder as package", [...OK, "--package", at("folder.tgz")], /file_unreadable/],
    ["a package of no kind", [...OK, "--package", "latest"], /invalid_option.*got "latest"/],
    ["an empty package", [...OK, "--package", ""], /invalid_option.*--package/],
    ["a package over plain HTTP", [...OK, "--package", "http://example.com/m.tgz"], /invalid_option.*https/],
    ["a package with a password", [...OK, "--package", "https://u:p@example.com/m.tgz"], /invalid_option.*https/],
    ["a package with a quote in its name", [...OK, "--package", at("it's.tgz")], /invalid_option.*letters, digits/],
    ["a package twice", [...OK, "--package", "0.1.0", "--package", "0.1.0"], /invalid_option.*once/],
    [
      "a file for user data",
      [...on("cloud-init"), "--package", at("millrace-0.1.0.tgz")],
      /invalid_option.*cloud-init/,
    ],
    ["port 0", [...OK, "--port", "0"], /invalid_option.*--port/],
    ["a port in words", [...OK, "--port", "http"], /invalid_option.*--port/],
    ["a host by name", [...OK, "--host", "example.com"], /invalid_option.*--host/],
    ["a host for a container", [...on("docker"), "--host", "127.0.0.1"], /invalid_option.*docker without --host/],
    ["a host for a cluster", [...K8S, "--host", "127.0.0.1"], /invalid_option.*kubernetes without --host/],
    ["a cluster without an image", on("kubernetes"), /invalid_option.*--image/],
    ["an image that is none", [...on("kubernetes"), "--image", "a b"], /invalid_option.*--image/],
    ["an image for a machine", [...OK, "--image", "r.example/m:1"], /invalid_option.*kubernetes only/],
    ["a package for a cluster", [...K8S, "--package", "0.1.0"], /invalid_option.*kubernetes without --package/],
    ["two models on a cluster", [...on("kubernetes", "two-models.yaml"), "--image", "m:1"], /invalid_option.*2 models/],
    [
      "a cluster without seats",
      [...on("kubernetes", "no-seats.yaml"), "--image", "m:1"],
      /invalid_option.*max-num-seqs/,
    ],
    ["nodes for a machine", [...OK, "--nodes", "2"], /invalid_option.*--nodes/],
    ["no nodes", [...K8S, "--nodes", "0"], /invalid_option.*--nodes/],
    ["our engine over nodes", [...K8S, "--nodes", "2"], /invalid_option.*vllm or sglang/],
    ["a file as folder", [...OK, "--out", at("file")], /invalid_option.*expected an empty folder/],
    ["a folder below a file", [...OK, "--out", at("file/x"), "--force"], /invalid_option.*expected an empty folder/],
    ["an option nobody knows", [...OK, "--gpu"], /an option of this command, got --gpu$/],
  ];

  test("there are fifty of them", () => expect(CASES.length).toBeGreaterThanOrEqual(50));

  test.each(CASES)("%s", async (_, args, expected) => {
    const out = args.includes("--out") ? [] : ["--out", at("never")];
    const { stderr, exitCode } = await image(...args, ...out);
    expect(stderr).toMatch(/^error \[[a-z_]+\]: /);
    expect(stderr).not.toMatch(/internal_error|sk-secret|hf_secret/);
    expect(stderr.split("\n")[0]).toMatch(expected);
    expect(exitCode).not.toBe(0);
    expect(existsSync(at("never"))).toBe(false);
  });

  test("without a folder the output place is not guessed", async () => {
    expect((await image(...OK)).stderr).toMatch(/invalid_option.*--out/);
  });
});

describe("a disk that cannot be built", () => {
  writeFileSync(at("there.raw"), "a disk");
  test.each([
    ["another format", ["--out", at("disk.iso")], /expected --out to be a file that ends with \.qcow2 or \.raw/],
    ["no folder", ["--out", at("nowhere/disk.raw")], /expected --out to be a file in a folder that exists/],
    ["a disk that is there", ["--out", at("there.raw")], /expected no file at --out.*\n.*--force/],
    ["a mirror that is none", ["--out", at("disk.raw"), "--mirror", "--keyring=/x"], /a URL such as https:/],
    ["a suite that is none", ["--out", at("disk.raw"), "--suite", "--trixie"], /a release of Debian such as trixie/],
    ["a size that is none", ["--out", at("disk.raw"), "--size", "small"], /a positive size such as 8GiB/],
  ])("%s", async (_, args, expected) => {
    const base = ["image", "build", "--preset", at("ok.yaml"), "--package", "0.1.0"];
    const { stdout, stderr, exitCode } = await runMain(...base, ...args);
    expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 2 });
    expect(stderr).toMatch(expected);
  });
});
