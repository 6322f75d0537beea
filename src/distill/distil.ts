/**
 * A distillation from prompts to report: a teacher answers, a small student is trained on the answers, and both are
 * compared on prompts held out of training. A stopped run resumes: answers and checkpoints are kept in the folder of
 * --out.
 */
import { writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { machineInfo, versions } from "../bench/results/machine.js";
import { optionError } from "../core/option-error.js";
import type { StartStage } from "../core/stages.js";
import { isHfFolder } from "../formats/hf/folder.js";
import { locateModel, nameOf } from "../formats/locate-model.js";
import type { Ask } from "../quality/ask.js";
import { collectCorpora } from "./collect.js";
import { type Corpora, writeTrlFiles } from "./collection.js";
import { type Compared, compareInStages } from "./contest.js";
import {
  type Chosen,
  choosePrompts,
  type DistillOptions,
  findTeacher,
  findTrainer,
  openRemote,
  type Teacher,
  type Telling,
  type TrainerSide,
} from "./distil-inputs.js";
import { compareQuality, type DistillReport, type ModelSize, reportMarkdown } from "./report.js";
import { elsewhere, STUDENT_PACKAGES, trainStudent, writeRecipe } from "./student-recipe.js";
import { checkInitFrom, inOwnFolder } from "./teaching.js";
import { type Trained, trainInStage } from "./train-run.js";
import { findPython, quantize } from "./trainer.js";

const DEFAULT_CONFIG = "small";

/** @returns undefined if no student is trained here */
export async function distil(
  options: DistillOptions,
  telling: Telling,
  signal: AbortSignal,
): Promise<DistillReport | undefined> {
  const { startStage } = telling;
  const chosen = await choosePrompts(options, telling);
  const other = options.student === undefined ? undefined : await openStudent(options, startStage);
  const url = /^https?:\/\//.test(options.teacher) ? options.teacher : undefined;
  const remote = url === undefined ? undefined : await openRemote(url, options, signal);
  try {
    const teacher = { ...(await findTeacher(options, remote, startStage)), url };
    const trainer = other === undefined ? await findTrainer(options, teacher, startStage) : undefined;
    checkInitFrom(options, trainer?.tokenizer.path);
    const lesson = { ...chosen, teacher, ask: remote?.ask, trainer, other };
    return await inOwnFolder(options, startStage, signal, () => teach(options, lesson, telling, signal));
  } finally {
    await remote?.close();
  }
}

interface Lesson extends Chosen {
  readonly teacher: Teacher;
  /** Reaches a teacher behind a URL; undefined: the teacher runs here. */
  readonly ask: Ask | undefined;
  readonly trainer: TrainerSide | undefined;
  /** A student of a family other than mill. */
  readonly other: OtherStudent | undefined;
}

interface OtherStudent {
  /** The student's folder before training. */
  readonly base: string;
  /** undefined: the student is trained elsewhere */
  readonly python: string | undefined;
}

async function openStudent(options: DistillOptions, startStage: StartStage): Promise<OtherStudent> {
  const { path } = await locateModel(options.student, startStage);
  if (!isHfFolder(path))
    throw optionError("--student", "a folder with config.json and safetensors files, or hf:org/repo", options.student!);
  return { base: resolve(path), python: options.train ? await findPython(process.env, STUDENT_PACKAGES) : undefined };
}

async function teach(
  options: DistillOptions,
  { split, judge, judgeName, teacher, ask, trainer, other }: Lesson,
  { startStage, say }: Telling,
  signal: AbortSignal,
): Promise<DistillReport | undefined> {
  const source = { ...teacher, ask, concurrency: options.concurrency };
  const { corpora, numRefused } = await collectCorpora(source, split, options, startStage, signal);
  if (other !== undefined) {
    const recipe = await writeRecipe(other.base, corpora, options, startStage);
    if (recipe.numTooLong > 0) say(`${recipe.numTooLong} chats are longer than the student reads and are left out`);
    say(elsewhere(recipe, options.teacher));
    if (other.python === undefined || judge === undefined) return undefined;
    const { path: studentPath, trained } = await trainStudent(other.python, recipe, options.out, startStage, signal);
    const contest = { teacher, teacherAsk: ask, studentPath, corpora, trained, judge, hasSameTokens: false };
    const compared = await compareInStages(options, contest, startStage, signal);
    return writeReport(options, { ...compared, teacher, studentPath, judgeName, corpora, numRefused, trained });
  }
  const trlFolder = writeTrlFiles(options.out, corpora);
  say(`for training elsewhere: ${trlFolder} (TRL's prompts and completions); --student writes a recipe for a model`);
  if (trainer === undefined || judge === undefined) return undefined;
  const studentPath = join(options.out, "student.gguf");
  const args = ["distill-sequences", "--preset", options.studentConfig ?? DEFAULT_CONFIG];
  const model = { flag: "--teacher", ...trainer.tokenizer };
  const isRounded = options.studentType === "q8_0";
  const outPath = isRounded ? join(options.out, "student-f16.gguf") : studentPath;
  const trained = await trainInStage(
    { python: trainer.python, args, model, corpora, outPath },
    options,
    startStage,
    signal,
  );
  if (isRounded) await quantize(trainer.python, outPath, studentPath, signal);
  const hasSameTokens = trainer.tokenizer.path === teacher.path;
  const contest = { teacher, teacherAsk: ask, studentPath, corpora, trained, judge, hasSameTokens };
  const compared = await compareInStages(options, contest, startStage, signal);
  return writeReport(options, { ...compared, teacher, studentPath, judgeName, corpora, numRefused, trained });
}

interface Outcome extends Compared {
  readonly teacher: Teacher;
  readonly studentPath: string;
  readonly judgeName: string;
  readonly corpora: Corpora;
  readonly numRefused: number;
  readonly trained: Trained;
}

/** Configuration of the student before its training. */
function configOf({ student, initFrom, studentConfig = DEFAULT_CONFIG }: DistillOptions): string {
  if (student !== undefined) return nameOf(student);
  return initFrom === undefined ? studentConfig : `${basename(initFrom)}-shaped`;
}

function writeReport(options: DistillOptions, outcome: Outcome): DistillReport {
  const { teacher, corpora, trained, teacherSize, studentSize } = outcome;
  const { items, speed, answerSpeed, speedProblem, textPerToken } = outcome;
  const sizeOf = ({ numParameters, weightBytes }: ModelSize): ModelSize => ({ numParameters, weightBytes });
  const isCutOff = ({ answer }: Corpora["training"][number]): boolean => answer.end === "length";
  const numCutOff = corpora.training.filter(isCutOff).length;
  const { temperature, maxTokens, seed, steps } = options;
  const report: DistillReport = {
    teacher: { name: teacher.name, url: teacher.url, size: teacherSize && sizeOf(teacherSize) },
    student: {
      path: outcome.studentPath,
      config: configOf(options),
      size: sizeOf(studentSize),
    },
    judge: outcome.judgeName,
    sampling: { temperature, maxTokens, seed },
    prompts: {
      file: options.prompts,
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
  writeFileSync(join(options.out, "report.json"), `${JSON.stringify(report, undefined, 1)}\n`);
  writeFileSync(join(options.out, "report.md"), reportMarkdown(report));
  return report;
}
