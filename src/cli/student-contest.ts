/** A student beside its teacher: both answer the prompts held out, are judged alike, and run one after the other for their speed. */
import { join } from "node:path";
import type { Answer, Ask } from "../distill/answers.js";
import type { Corpora } from "../distill/collection.js";
import type { Judge } from "../distill/judge.js";
import type { Prompt } from "../distill/prompts.js";
import type { ComparedItem, DistillReport, ModelSize } from "../distill/report.js";
import type { AnswerSpeed, SpeedComparison } from "../distill/speed.js";
import { NO_SPECULATION } from "../engine/api/speculative-config.js";
import { chatPromptIds, type LocalSession, openLocalSession } from "./local-session.js";
import type { StartStage } from "./stages.js";
import { askOf, collectInStage, sessionFlags, type TeachingFlags, type Trained, templateOf } from "./teaching.js";

interface Contest {
  readonly teacher: { readonly path: string | undefined };
  /** Of one behind a URL. */
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

/** Both without drafters and shared prefixes, which would tell more of the prompts than of the models. */
export async function compareInStages(
  flags: TeachingFlags & { readonly studentType: string; readonly temperature: number },
  { teacher, teacherAsk, studentPath, corpora, trained, judge, hasSameTokens }: Contest,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Compared> {
  const { AnswerFile } = await import("../distill/answers.js");
  const bare = { ...flags, speculativeConfig: NO_SPECULATION, enablePrefixCaching: false };
  const heldOut = corpora.heldOut;
  const prompts = heldOut.map(({ prompt }) => prompt);
  // The teacher's template and context are not the student's.
  const { chatTemplate: _, maxModelLen: __, ...own } = bare;
  const student = await openLocalSession(sessionFlags(own, studentPath), startStage);
  try {
    const file = AnswerFile.open(join(trained.runFolder, `student-answers-${flags.studentType}.jsonl`));
    const collecting = { file, prompts, ask: askOf(student, flags.seed), concurrency: flags.maxNumSeqs, signal };
    await collectInStage(collecting, "student's answers", startStage);
    const stage = startStage("scores");
    const studentAnswers = prompts.map(({ id }) => file.get(id)?.text ?? "");
    const teacherScores = await judge(
      heldOut.map(({ prompt, answer }) => ({ prompt, answer: answer.text })),
      signal,
    );
    const studentScores = await judge(
      prompts.map((prompt, i) => ({ prompt, answer: studentAnswers[i]! })),
      signal,
    );
    stage.done(`${prompts.length} prompts`);
    const items = heldOut.map(({ prompt, answer }, i) => ({
      id: prompt.id,
      prompt: prompt.messages,
      teacher: { answer: answer.text, ...teacherScores[i]! },
      student: { answer: studentAnswers[i]!, ...studentScores[i]! },
    }));
    const answeredByBoth = prompts.filter(({ id }) => file.get(id) !== undefined);
    const textPerToken = hasSameTokens
      ? undefined
      : {
          teacher: charactersPerToken(heldOut.map(({ answer }) => answer)),
          student: charactersPerToken(prompts.flatMap(({ id }) => file.get(id) ?? [])),
        };
    const shared = { items, studentSize: student.engine.info, textPerToken };
    if (teacherAsk !== undefined) {
      const { compareAnswers } = await import("../distill/speed.js");
      const outcome = await compareAnswers(teacherAsk, askOf(student, flags.seed), answeredByBoth, signal);
      const [answerSpeed, speedProblem] = typeof outcome === "string" ? [undefined, outcome] : [outcome, undefined];
      return { ...shared, answerSpeed, speedProblem, speed: undefined, teacherSize: undefined };
    }
    const local = await openLocalSession(sessionFlags(bare, teacher.path!), startStage);
    try {
      const speed = await race(local, student, answeredByBoth, startStage, signal);
      const speedProblem =
        speed === undefined ? "no held-out prompt leaves room for an answer in both contexts" : undefined;
      return { ...shared, answerSpeed: undefined, speed, speedProblem, teacherSize: local.engine.info };
    } finally {
      await local.close();
    }
  } finally {
    await student.close();
  }
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
  const { compareSpeed } = await import("../distill/speed.js");
  const idsOf = (session: LocalSession, { messages }: Prompt): number[] =>
    chatPromptIds(session.tokenizer, templateOf(session), messages);
  const pairs = prompts.map((prompt) => ({ teacher: idsOf(teacher, prompt), student: idsOf(student, prompt) }));
  const stage = startStage("speed");
  const tell = (numDone: number, numAll: number): void => stage.update(`round ${numDone} of ${numAll}`);
  const speed = await compareSpeed(teacher.engine, student.engine, pairs, tell, signal);
  stage.done(
    speed === undefined ? "no prompt leaves room" : `a token ${speed.decoding.value.toFixed(2)} times as fast`,
  );
  return speed;
}
