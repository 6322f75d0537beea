/**
 * Compares a student with its teacher: both answer the held-out prompts, are judged alike, and are timed in
 * alternation.
 */
import { join } from "node:path";
import type { StartStage } from "../core/stages.js";
import { NO_SPECULATION } from "../engine/api/speculative-config.js";
import { askOf, type LocalSession, openLocalSession, templateOf } from "../local/session.js";
import { type Ask, seedOf } from "../quality/ask.js";
import { chatPromptIds } from "../text/text-side.js";
import { type Answer, type AnswerFile, openAnswers } from "./answers.js";
import { collectInStage } from "./collect.js";
import type { Corpora } from "./collection.js";
import type { Judge } from "./judge.js";
import type { Prompt } from "./prompts.js";
import type { ComparedItem, DistillReport, ModelSize } from "./report.js";
import { type AnswerSpeed, compareAnswers, compareSpeed, type SpeedComparison } from "./speed.js";
import { samplingOf, sourceOf, type TeachingOptions } from "./teaching.js";
import type { Trained } from "./train-run.js";

interface Contest {
  readonly teacher: { readonly path: string | undefined };
  /** Reaches a teacher behind a URL; undefined: the teacher runs here. */
  readonly teacherAsk: Ask | undefined;
  readonly studentPath: string;
  readonly corpora: Corpora;
  readonly trained: Trained;
  readonly judge: Judge;
  readonly hasSameTokens: boolean;
}

export interface Compared {
  readonly items: readonly ComparedItem[];
  readonly speed: SpeedComparison | undefined;
  readonly answerSpeed: AnswerSpeed | undefined;
  readonly speedProblem: string | undefined;
  readonly textPerToken: DistillReport["textPerToken"];
  readonly teacherSize: ModelSize | undefined;
  readonly studentSize: ModelSize;
}

/** Both run without drafters and prefix caches, whose gains depend more on the prompts than on the models. */
export async function compareInStages(
  options: TeachingOptions & { readonly studentType: string; readonly temperature: number },
  { teacher, teacherAsk, studentPath, corpora, trained, judge, hasSameTokens }: Contest,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Compared> {
  const engine = { ...options.engine, speculative: NO_SPECULATION, enablePrefixCaching: false };
  const sampling = samplingOf(options, options.temperature);
  const heldOut = corpora.heldOut;
  const prompts = heldOut.map(({ prompt }) => prompt);
  // The student has its own template and context.
  const ofStudent = { model: studentPath, engine: { ...engine, maxModelLen: undefined } };
  const student = await openLocalSession(ofStudent, sampling, startStage);
  const askStudent = askOf(student, (messages) => seedOf(options.seed, messages));
  try {
    const file = openAnswers(join(trained.runFolder, `student-answers-${options.studentType}.jsonl`));
    const collecting = { file, prompts, ask: askStudent, concurrency: engine.maxNumSeqs, signal };
    await collectInStage(collecting, "student's answers", startStage);
    const items = await judgeBoth(judge, heldOut, file, startStage, signal);
    const answeredByBoth = prompts.filter(({ id }) => file.get(id) !== undefined);
    const textPerToken = hasSameTokens
      ? undefined
      : {
          teacher: charactersPerToken(heldOut.map(({ answer }) => answer)),
          student: charactersPerToken(prompts.flatMap(({ id }) => file.get(id) ?? [])),
        };
    const shared = { items, studentSize: student.engine.info, textPerToken };
    if (teacherAsk !== undefined) {
      const outcome = await compareAnswers(teacherAsk, askStudent, answeredByBoth, signal);
      const [answerSpeed, speedProblem] = typeof outcome === "string" ? [undefined, outcome] : [outcome, undefined];
      return { ...shared, answerSpeed, speedProblem, speed: undefined, teacherSize: undefined };
    }
    const local = await openLocalSession(sourceOf({ ...options, engine }, teacher.path!), sampling, startStage);
    try {
      const speed = await race(local, student, answeredByBoth, startStage, signal);
      const speedProblem =
        speed === undefined ? "no held-out prompt fits into both contexts with an answer" : undefined;
      return { ...shared, answerSpeed: undefined, speed, speedProblem, teacherSize: local.engine.info };
    } finally {
      await local.close();
    }
  } finally {
    await student.close();
  }
}

/** A missing answer of the student counts as an empty one. */
async function judgeBoth(
  judge: Judge,
  heldOut: Corpora["heldOut"],
  file: AnswerFile,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<ComparedItem[]> {
  const stage = startStage("scores");
  const ofTeacher = heldOut.map(({ prompt, answer }) => ({ prompt, answer: answer.text }));
  const ofStudent = heldOut.map(({ prompt }) => ({ prompt, answer: file.get(prompt.id)?.text ?? "" }));
  const teacherScores = await judge(ofTeacher, signal);
  const studentScores = await judge(ofStudent, signal);
  stage.done(`${heldOut.length} prompts`);
  return heldOut.map(({ prompt, answer }, i) => ({
    id: prompt.id,
    prompt: prompt.messages,
    teacher: { answer: answer.text, ...teacherScores[i]! },
    student: { answer: ofStudent[i]!.answer, ...studentScores[i]! },
  }));
}

function charactersPerToken(answers: readonly Pick<Answer, "text" | "numOutputTokens">[]): number {
  const counted = answers.filter(({ numOutputTokens }) => numOutputTokens > 0);
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return sum(counted.map(({ text }) => text.length)) / sum(counted.map((answer) => answer.numOutputTokens));
}

async function race(
  teacher: LocalSession,
  student: LocalSession,
  prompts: readonly Prompt[],
  startStage: StartStage,
  signal: AbortSignal,
): Promise<SpeedComparison | undefined> {
  const idsOf = (session: LocalSession, { messages }: Prompt): number[] =>
    chatPromptIds(session.tokenizer, templateOf(session), messages);
  const pairs = prompts.map((prompt) => ({ teacher: idsOf(teacher, prompt), student: idsOf(student, prompt) }));
  const stage = startStage("speed");
  const tell = (numDone: number, numAll: number): void => stage.update(`round ${numDone} of ${numAll}`);
  const speed = await compareSpeed(teacher.engine, student.engine, pairs, tell, signal);
  stage.done(speed === undefined ? "no prompt fits" : `a token ${speed.decoding.value.toFixed(2)} times as fast`);
  return speed;
}
