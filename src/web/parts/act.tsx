/** The visitor's actions on the server, and their results. */
import { useSignal } from "@preact/signals";
import { errorText } from "./load.js";

interface Acts {
  /** Error of the last action. It stays until the next one, also when the page loads data again. */
  readonly problem: string | undefined;
  /** The result of the last action as a text; undefined: the action has none. */
  readonly said: string | undefined;
  /** @returns whether the action succeeded */
  act(what: () => Promise<unknown>, sayDone?: string): Promise<boolean>;
  /** Shows a reason instead of sending an action that the server would refuse. */
  refuse(why: string): void;
}

/** @param reload called after each successful action */
export function useAct(reload: () => Promise<unknown>): Acts {
  const problem = useSignal<string | undefined>(undefined);
  const said = useSignal<string | undefined>(undefined);
  const act = async (what: () => Promise<unknown>, sayDone?: string): Promise<boolean> => {
    [problem.value, said.value] = [undefined, undefined];
    try {
      const result = await what();
      said.value = typeof result === "string" ? result : sayDone;
      await reload();
      return true;
    } catch (thrown) {
      problem.value = errorText(thrown);
      return false;
    }
  };
  const refuse = (why: string) => {
    [problem.value, said.value] = [why, undefined];
  };
  return { problem: problem.value, said: said.value, act, refuse };
}

export function ActSays({ problem, said }: Pick<Acts, "problem" | "said">) {
  return (
    <>
      {problem !== undefined && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      {said !== undefined && (
        <p class="notice" role="status">
          {said}
        </p>
      )}
    </>
  );
}
