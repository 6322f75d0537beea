/** `millrace distill`: a teacher's answers to one's own prompts, a small student trained on them, and how the two compare. */
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Command, Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import type { Ask } from "../../distill/answers.js";
import type { Corpora } from "../../distill/collection.js";
import type { Judge } from "../../distill/judge.js";
import type { Split } from "../../distill/prompts.js";
import type { RemoteTeacher } from "../../distill/remote-teacher.js";
import type { DistillReport, ModelSize } from "../../distill/report.js";
import { formatTable } from "../format.js";
import { locateModel } from "../model.js";
import { integerIn, numberIn, oneOf, optionError } from "../option-values.js";
import { type StartStage, stagesTo } from "../stages.js";
import { untilStopped } from "../stop-signal.js";
import { type Compared, compareInStages } from "../student-contest.js";
import {
  type AnswerSource,
  addTeachingOptions,
  checkInitFrom,
  collectCorpora,
  inOwnFolder,
  modelHash,
  type TeachingFlags,
  type Trained,
  trainInStage,
} from "../teaching.js";

interface DistillFlags extends TeachingFlags {
  readonly teacher: string;
  readonly teacherModel?: string;
  readonly apiKey?: string;
  readonly concurrency: number;
  readonly tokenizerFrom?: string;
  readonly studentConfig?: "tiny" | "small";
  readonly studentType: "f16" | "q8_0";
  readonly task?: string;
  readonly scorer?: string;
  readonly temperature: number;
  readonly train: boolean;
}

const DEFAULT_STEPS = 1000;
const DEFAULT_CONFIG = "small";

export function distillCommand(): Command {
  const command = new Command("distill")
    .description(
      "Teach a small model what a large one answers to your prompts, and compare the two on prompts held out. Goes on where it was stopped.",
    )
    .requiredOption("--teacher <model|url>", "a model as for --model, or the address of any OpenAI-compatible server")
    .option("--teacher-model <name>", "which model of that server (default: the first it lists)")
    .addOption(new Option("--api-key <key>", "sent to that server").env("OPENAI_API_KEY"))
    .option("--concurrency <n>", "requests at once to that server", integerIn("--concurrency", 1, 10_000), 8)
    .option(
      "--student-config <name>",
      "tiny: 2 layers of width 128, small: 3 layers (default: small, or what --init-from has)",
      oneOf("--student-config", ["tiny", "small"]),
    )
    .addOption(
      new Option("--student-type <type>", "type of the student's matrices: f16, or q8_0, which is smaller and faster")
        .choices(["f16", "q8_0"])
        .default("f16"),
    )
    .option("--task <family>", "answers are judged by the checks of this family's prompts")
    .option("--scorer <command>", "reads a JSON line {prompt, answer} for each answer, writes a line from 0 to 1 each")
    .option(
      "--tokenizer-from <gguf>",
      "a model of the mill family whose tokenizer the student gets (default: the teacher)",
    )
    .option(
      "--temperature <t>",
      "temperature of the teacher and the student; 0: greedy",
      numberIn("--temperature", 0, 2),
      0,
    )
    .option("--no-train", "stop once the answers are there, with files for training elsewhere")
    .option("--chat-template <file>", "use this template instead of the teacher's own");
  return addTeachingOptions(command, DEFAULT_STEPS).action((flags: DistillFlags) =>
    untilStopped((signal) => runDistill(flags, stagesTo(process.stderr), signal)),
  );
}

type Teacher = Pick<AnswerSource, "name" | "path" | "contentHash" | "url">;

/** What a student needs to be trained here. */
interface TrainerSide {
  readonly python: string;
  readonly tokenizer: { readonly path: string; readonly contentHash: string };
}

async function runDistill(flags: DistillFlags, startStage: StartStage, signal: AbortSignal): Promise<void> {
  const prompts = await choosePrompts(flags);
  const url = /^https?:\/\//.test(flags.teacher) ? flags.teacher : undefined;
  const remote = url === undefined ? undefined : await openRemote(url, flags, signal);
  try {
    const teacher = { ...(await findTeacher(flags, remote, startStage)), url };
    const trainer = await findTrainer(flags, teacher, startStage);
    await checkInitFrom(flags, trainer?.tokenizer.path);
    const teachHere = () => teach(flags, { ...prompts, teacher, ask: remote?.ask, trainer }, startStage, signal);
    await inOwnFolder(flags, startStage, signal, teachHere);
  } finally {
    await remote?.close();
  }
}

interface Lesson extends Chosen {
  readonly teacher: Teacher;
  /** Of one behind a URL. */
  readonly ask: Ask | undefined;
  readonly trainer: TrainerSide | undefined;
}

async function teach(
  flags: DistillFlags,
  { split, judge, judgeName, teacher, ask, trainer }: Lesson,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<void> {
  const source = { ...teacher, ask, concurrency: flags.concurrency };
  const { corpora, numRefused } = await collectCorpora(source, split, flags, startStage, signal);
  const { writeTrlFiles } = await import("../../distill/collection.js");
  const trlFolder = writeTrlFiles(flags.out, corpora);
  process.stderr.write(`for training elsewhere: ${trlFolder} (TRL's prompts and completions, and lora.py)\n`);
  if (trainer === undefined || judge === undefined) return;
  const studentPath = join(flags.out, "student.gguf");
  const args = ["distill-sequences", "--preset", flags.studentConfig ?? DEFAULT_CONFIG];
  const model = { flag: "--teacher", ...trainer.tokenizer };
  const isRounded = flags.studentType === "q8_0";
  const outPath = isRounded ? join(flags.out, "student-f16.gguf") : studentPath;
  const trained = await trainInStage(
    { python: trainer.python, args, model, corpora, outPath },
    flags,
    startStage,
    signal,
  );
  if (isRounded) {
    const { quantize } = await import("../../distill/trainer.js");
    await quantize(trainer.python, outPath, studentPath, signal);
  }
  const hasSameTokens = trainer.tokenizer.path === teacher.path;
  const contest = { teacher, teacherAsk: ask, studentPath, corpora, trained, judge, hasSameTokens };
  const compared = await compareInStages(flags, contest, startStage, signal);
  await writeReport(flags, { ...compared, teacher, studentPath, judgeName, corpora, numRefused, trained });
}

interface Chosen {
  readonly split: Split;
  readonly judge?: Judge;
  readonly judgeName: string;
}

/** Everything that a wrong command line or a bad file can break, before any work. */
async function choosePrompts(flags: DistillFlags): Promise<Chosen> {
  if (flags.initFrom !== undefined && flags.studentConfig !== undefined) {
    throw optionError(
      "--student-config",
      "left out beside --init-from, whose shape the student has",
      flags.studentConfig,
    );
  }
  const [{ promptsOfTask, readPrompts, splitPrompts }, { judgeByChecks, judgeByCommand }] = await Promise.all([
    import("../../distill/prompts.js"),
    import("../../distill/judge.js"),
  ]);
  const { task, scorer, prompts: file, holdoutShare } = flags;
  if ((task === undefined) === (scorer === undefined) && (flags.train || task !== undefined)) {
    const got = task === undefined ? "neither" : "both";
    throw new MillraceError("invalid_option", `expected --task or --scorer, got ${got}`, {
      hint: "one of them judges the answers; --no-train only collects them",
    });
  }
  const all = readPrompts(file);
  if (task === undefined) {
    const judge = scorer === undefined ? {} : { judge: judgeByCommand(scorer) };
    return { split: splitPrompts(all, holdoutShare), ...judge, judgeName: `\`${scorer}\`` };
  }
  const { training, heldOut } = splitPrompts(promptsOfTask(all, task, file), holdoutShare);
  const judged = heldOut.filter(({ check }) => check?.kind !== "none");
  if (judged.length === 0) {
    throw new MillraceError(
      "invalid_option",
      `expected held-out prompts of ${task} with something to check, got none`,
      {
        hint: "give more prompts, or judge with --scorer",
      },
    );
  }
  const { requireConfinementFor } = await import("../../quality/code-score.js");
  const isConfined = await requireConfinementFor(judged.map(({ check }) => check));
  if (!isConfined) process.stderr.write("warning: the code of answers runs unconfined: it can do whatever you can\n");
  return { split: { training, heldOut: judged }, judge: judgeByChecks, judgeName: `the checks of ${task}` };
}

async function openRemote(url: string, flags: DistillFlags, signal: AbortSignal): Promise<RemoteTeacher> {
  const [{ openRemoteTeacher }, { termsOf }] = await Promise.all([
    import("../../distill/remote-teacher.js"),
    import("../../distill/collection.js"),
  ]);
  const { apiKey, temperature, maxTokens, seed } = flags;
  const before = termsOf(flags.out);
  // Where all answers are there, the server need not be any more.
  const model = flags.teacherModel ?? (before?.settings?.url === url ? before.teacher : undefined);
  return openRemoteTeacher({ url, model, apiKey, temperature, maxTokens, seed }, signal);
}

async function findTeacher(
  flags: DistillFlags,
  remote: RemoteTeacher | undefined,
  startStage: StartStage,
): Promise<Teacher> {
  if (remote !== undefined) return { name: remote.name, path: undefined, contentHash: undefined };
  const { path, name } = await locateModel(flags.teacher, startStage);
  return { name, path, contentHash: await modelHash(path, startStage) };
}

/** undefined where only answers are collected, after saying why. Throws python_missing. */
async function findTrainer(
  flags: DistillFlags,
  { path: teacherPath, contentHash }: Teacher,
  startStage: StartStage,
): Promise<TrainerSide | undefined> {
  if (!flags.train) return undefined;
  const [{ findPython, untrainable }, { readGguf }] = await Promise.all([
    import("../../distill/trainer.js"),
    import("../../formats/gguf/read.js"),
  ]);
  const problemOf = (path: string): string | undefined =>
    path.endsWith(".gguf") ? untrainable(readGguf(path), "tokenizer") : "a model that is no GGUF file";
  const { tokenizerFrom } = flags;
  if (tokenizerFrom !== undefined) {
    const problem = problemOf(tokenizerFrom);
    if (problem !== undefined)
      throw optionError("--tokenizer-from", `a model of the mill family, not ${problem}`, tokenizerFrom);
    const python = await findPython();
    return { python, tokenizer: { path: tokenizerFrom, contentHash: await modelHash(tokenizerFrom, startStage) } };
  }
  const problem = teacherPath === undefined ? "a teacher behind a URL" : problemOf(teacherPath);
  if (problem === undefined) {
    return { python: await findPython(), tokenizer: { path: teacherPath!, contentHash: contentHash! } };
  }
  startStage("student").note(
    `none is trained here: its tokenizer must be the mill family's, and this is ${problem}; --tokenizer-from names a model that has it`,
  );
  return undefined;
}

interface Outcome extends Compared {
  readonly teacher: Teacher;
  readonly studentPath: string;
  readonly judgeName: string;
  readonly corpora: Corpora;
  readonly numRefused: number;
  readonly trained: Trained;
}

async function writeReport(flags: DistillFlags, outcome: Outcome): Promise<void> {
  const [{ compareQuality, findings, reportMarkdown, reportRows }, { machineInfo, versions }] = await Promise.all([
    import("../../distill/report.js"),
    import("../../bench/results/machine.js"),
  ]);
  const { teacher, corpora, trained, teacherSize, studentSize } = outcome;
  const { items, speed, answerSpeed, speedProblem, textPerToken } = outcome;
  const sizeOf = ({ numParameters, weightBytes }: ModelSize): ModelSize => ({ numParameters, weightBytes });
  const isCutOff = ({ answer }: Corpora["training"][number]): boolean => answer.end === "length";
  const numCutOff = corpora.training.filter(isCutOff).length;
  const { temperature, maxTokens, seed, steps } = flags;
  const report: DistillReport = {
    teacher: { name: teacher.name, url: teacher.url, size: teacherSize && sizeOf(teacherSize) },
    student: {
      path: outcome.studentPath,
      config:
        flags.initFrom === undefined ? (flags.studentConfig ?? DEFAULT_CONFIG) : `${basename(flags.initFrom)}-shaped`,
      size: sizeOf(studentSize),
    },
    judge: outcome.judgeName,
    sampling: { temperature, maxTokens, seed },
    prompts: {
      file: flags.prompts,
      numTrained: trained.numUsed,
      numTrainedCut: trained.numCut,
      numHeldOut: corpora.heldOut.length,
      numRefused: outcome.numRefused,
      numCutOff,
    },
    training: { steps, heldOutLoss: trained.losses.all },
    quality: compareQuality(items),
    speed,
    answerSpeed,
    speedProblem,
    textPerToken,
    items,
    machine: machineInfo(),
    versions: versions(),
  };
  writeFileSync(join(flags.out, "report.json"), `${JSON.stringify(report, undefined, 1)}\n`);
  writeFileSync(join(flags.out, "report.md"), reportMarkdown(report));
  const table = formatTable([["", "teacher", "student"], ...reportRows(report)]);
  process.stdout.write(`${table}\n\n${findings(report).join("\n")}\n`);
}
