/** Progress of long work, stage by stage. The work reports it; commands display it. */

export interface Stage {
  /** @param text the stage's progress */
  update(text: string): void;
  /** @param text the stage's result */
  done(text: string): void;
  /** A remark that is not an error. */
  note(text: string): void;
}

/** Begins a stage with this name. */
export type StartStage = (name: string) => Stage;

/** Drops progress and keeps remarks. */
export function quietStages(onNote: (text: string) => void): StartStage {
  return () => ({ update: () => {}, done: () => {}, note: onNote });
}

export const silentStages: StartStage = quietStages(() => {});
