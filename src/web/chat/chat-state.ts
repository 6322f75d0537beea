/** The conversation on the page, and the visitor's actions on it. */
import { computed, effect, signal, untracked } from "@preact/signals";
import { chatModels, contextOf, models } from "../api/models.js";
import { clientSignOuts } from "../api/session.js";
import { errorText } from "../parts/load.js";
import { oneLine } from "../text/one-line.js";
import { isInBrowser } from "./browser-chats.js";
import {
  bringIn,
  discard,
  forgetServer,
  keep,
  keptClient,
  load,
  moveToServer,
  NOT_HERE,
  refresh,
  rename,
} from "./chat-shelf.js";
import {
  type Conversation,
  DEFAULT_SETTINGS,
  dropTurns,
  type Feedback,
  NO_TITLE,
  newId,
  type Pane,
  requestOf,
  type Settings,
  stopped,
  type Turn,
  titleOf,
  withoutTurns,
  withQuestion,
} from "./conversation.js";
import { bringBack, setDraft } from "./draft.js";
import { CHATS_KEY } from "./saved-chats.js";
import { wanted } from "./search.js";
import { streamAnswer } from "./stream-answer.js";

const newChat = (settings: Settings, paneModels: readonly string[]): Conversation => ({
  id: newId(),
  title: NO_TITLE,
  updatedMs: Date.now(),
  settings,
  panes: paneModels.map((model) => ({ model, turns: [] })),
});

export const chat = signal<Conversation>(newChat(DEFAULT_SETTINGS, [""]));
/**
 * Incremented when the page shows another conversation. The id does not show this: a conversation that continues as a
 * copy gets a new one.
 */
let numShown = 0;
/** The latest failure, as a message for the visitor. */
export const problem = signal<string | undefined>(undefined);
/** Aborts a pane's running answer, by the pane's index. */
const running = signal<ReadonlyMap<number, AbortController>>(new Map());
export const isBusy = computed(() => running.value.size > 0);
export const isAnswering = (index: number): boolean => running.value.has(index);
/** The panes from before a question was withdrawn for editing. */
export const beforeEdit = signal<readonly Pane[] | undefined>(undefined);
/** Text for screen readers. */
export const announcement = signal("");

/** The pane's model; without one, the server's first model. */
export function modelOf({ model }: Pane): string {
  const listed = chatModels(models.value);
  return listed.some(({ id }) => id === model) ? model : (listed[0]?.id ?? model);
}

function setPane(index: number, change: (pane: Pane) => Pane): void {
  const { panes } = chat.value;
  chat.value = { ...chat.value, panes: panes.map((pane, i) => (i === index ? change(pane) : pane)) };
}

function setLast(index: number, turn: Turn): void {
  setPane(index, (pane) => ({ ...pane, turns: [...pane.turns.slice(0, -1), turn] }));
}

/**
 * Keeps the conversation. A running answer is kept as a stopped one, so that it can be asked for again if the page is
 * closed before the answer ends.
 */
function save(): void {
  const { panes } = chat.value;
  if (panes.every(({ turns }) => turns.length === 0)) return;
  const title = chat.value.isNamed === true ? chat.value.title : titleOf(panes);
  chat.value = { ...chat.value, title, updatedMs: Date.now() };
  const numBefore = numShown;
  const ended = panes.map((pane, i) => (running.value.has(i) ? { ...pane, turns: stopped(pane.turns) } : pane));
  void keep({ ...chat.value, panes: ended }).then((kept) => {
    if (numShown !== numBefore) return;
    if (kept.id !== chat.value.id) chat.value = { ...chat.value, id: kept.id };
    if (kept.problem !== undefined) problem.value = kept.problem;
  });
}

/** @returns whether the settings make a valid request; if not, `problem` has the reason */
export function canAsk(): boolean {
  try {
    requestOf(chat.value.panes[0]!, chat.value.settings);
    problem.value = undefined;
    return true;
  } catch (thrown) {
    problem.value = `The JSON Schema in the settings cannot be used: ${(thrown as Error).message}.`;
    return false;
  }
}

/** Requests an answer to the pane's last turn, or a continuation of it. */
async function answer(index: number): Promise<void> {
  const pane = { ...chat.value.panes[index]!, model: modelOf(chat.value.panes[index]!) };
  const numBefore = numShown;
  beforeEdit.value = undefined;
  const request = requestOf(pane, chat.value.settings);
  const controller = new AbortController();
  running.value = new Map(running.value).set(index, controller);
  announcement.value = "The model is answering.";
  // The page may show another conversation meanwhile.
  const isShown = () => numShown === numBefore;
  const from = pane.turns.at(-1)!;
  const options = { request, from, contextLength: contextOf(pane.model), signal: controller.signal };
  const turn = await streamAnswer({ ...options, update: (grown) => isShown() && setLast(index, grown) });
  if (running.value.get(index) === controller) {
    const others = new Map(running.value);
    others.delete(index);
    running.value = others;
  }
  if (!isShown()) return;
  setLast(index, turn);
  announcement.value = turn.content === "" ? "No answer." : `The model said: ${turn.content}`;
  save();
}

const answerAll = (): Promise<unknown> => Promise.all(chat.value.panes.map((_, i) => answer(i)));

export async function send(content: string, files: Turn["files"] = []): Promise<void> {
  if (isBusy.value || !canAsk()) return;
  const question: Turn = { role: "user", content, ...(files.length === 0 ? {} : { files }) };
  const panes = chat.value.panes.map((pane) => ({ ...pane, turns: withQuestion(pane.turns, question) }));
  chat.value = { ...chat.value, panes };
  const answers = answerAll();
  // Saves the question before its answer arrives.
  save();
  await answers;
}

export function stop(): void {
  for (const controller of running.value.values()) controller.abort();
}

/**
 * Keeps the visitor's feedback with its answer, if the shown conversation has that answer.
 * @param replaced only replaces this feedback, not a later one
 */
export function setFeedback(feedback: Feedback, replaced?: Feedback): void {
  const isOf = ({ feedback: own }: Turn) =>
    own?.requestId === feedback.requestId && (replaced === undefined || own === replaced);
  if (!chat.value.panes.some(({ turns }) => turns.some(isOf))) return;
  const panes = chat.value.panes.map((pane) => ({
    ...pane,
    turns: pane.turns.map((turn) => (isOf(turn) ? { ...turn, feedback } : turn)),
  }));
  chat.value = { ...chat.value, panes };
  save();
}

/** Continues the last answer, or asks again where there is none. */
export async function goOn(index: number): Promise<void> {
  if (!isBusy.value && canAsk()) await answer(index);
}

export async function regenerate(index: number): Promise<void> {
  if (isBusy.value || !canAsk()) return;
  setLast(index, { role: "assistant", content: "" });
  await answer(index);
}

/** Removes the question at this index of a pane, and all turns after it, in every pane. @returns the question */
export function takeBack(index: number, place: number): Turn | undefined {
  if (isBusy.value) return undefined;
  const { panes } = chat.value;
  beforeEdit.value ??= panes;
  const withdrawn = panes[index]!.turns.slice(place);
  chat.value = { ...chat.value, panes: panes.map((pane) => ({ ...pane, turns: withoutTurns(pane.turns, withdrawn) })) };
  return withdrawn[0];
}

/** Restores the withdrawn turns. */
export function putBack(): void {
  for (const [index, { turns }] of (beforeEdit.value ?? []).entries()) setPane(index, (pane) => ({ ...pane, turns }));
  beforeEdit.value = undefined;
}

/** Excludes turns from later requests, and goes on. */
export async function drop(index: number, places: readonly number[]): Promise<void> {
  if (isBusy.value || !canAsk()) return;
  setPane(index, (pane) => ({ ...pane, turns: dropTurns(pane.turns, places) }));
  await answer(index);
}

/** Abandons an edit, because its conversation leaves the page. */
function endEdit(): void {
  if (beforeEdit.value !== undefined) bringBack();
  beforeEdit.value = undefined;
}

/** Makes room for another conversation: stops a running answer and keeps its text so far. */
function leave(): void {
  const unfinished = [...running.value.keys()];
  stop();
  endEdit();
  running.value = new Map();
  for (const index of unfinished) setPane(index, (pane) => ({ ...pane, turns: stopped(pane.turns) }));
  if (unfinished.length > 0) save();
  numShown++;
}

export function startOver(): void {
  leave();
  clear();
}

/** Clears the page without keeping its conversation. */
function clear(): void {
  stop();
  numShown++;
  endEdit();
  running.value = new Map();
  problem.value = undefined;
  chat.value = newChat(
    chat.value.settings,
    chat.value.panes.map(({ model }) => model),
  );
}

let numAsked = 0;

export async function show(id: string): Promise<void> {
  const before = chat.value.id;
  const [numBefore, number, wasBusy] = [numShown, ++numAsked, isBusy.value];
  let found: Conversation | undefined;
  try {
    found = await load(id);
  } catch (thrown) {
    problem.value = errorText(thrown);
    return;
  }
  // The visitor may have opened another conversation meanwhile, or asked something here.
  const isElsewhere = numShown !== numBefore || chat.value.id !== before;
  if (isElsewhere || number !== numAsked || (isBusy.value && !wasBusy)) return;
  if (found === undefined) {
    problem.value = NOT_HERE;
    return;
  }
  leave();
  problem.value = undefined;
  chat.value = found;
}

export async function remove(id: string): Promise<void> {
  const trouble = await discard(id);
  if (trouble !== undefined) problem.value = trouble;
  else if (chat.value.id === id) clear();
}

/** Renames the conversation. An empty name leaves the old one. */
export async function renameChat(id: string, name: string): Promise<void> {
  const title = oneLine(name);
  if (title === "") return;
  // Set immediately, so that an answer that ends meanwhile is saved under the new name.
  if (chat.value.id === id) chat.value = { ...chat.value, title, isNamed: true };
  const trouble = await rename(id, title);
  if (trouble !== undefined) problem.value = trouble;
}

/** Replaces conversations with the same id. */
export async function importChats(imported: readonly Conversation[]): Promise<void> {
  problem.value = await bringIn(imported);
}

export async function moveChats(): Promise<void> {
  problem.value = await moveToServer();
}

/**
 * Reads the list again, because other pages may have changed it. If they changed the shown conversation, the page shows
 * its new version.
 */
async function lookAgain(): Promise<void> {
  const { id } = chat.value;
  const isStale = await refresh(id).catch((thrown: unknown) => {
    problem.value = `The list of conversations could not be read: ${errorText(thrown)}`;
    return false;
  });
  if (isStale && !isBusy.value && chat.value.id === id) await show(id);
}

/**
 * Hides one client's conversation from the next client and after a sign-out. If the session expired, the page stays as
 * it is.
 */
let shownTo: string | undefined;
let numSignOuts = 0;
effect(() => {
  const client = keptClient.value;
  const isOut = clientSignOuts.value !== numSignOuts;
  numSignOuts = clientSignOuts.value;
  untracked(() => {
    if (shownTo !== undefined && (isOut || (client !== undefined && client !== shownTo))) {
      forgetServer();
      if (!isInBrowser(chat.value.id)) clear();
      setDraft("", []);
      wanted.value = "";
      shownTo = undefined;
    }
    if (client === undefined) return;
    shownTo = client;
    void lookAgain();
  });
});
addEventListener("focus", () => void lookAgain());
// Another tab has written to the browser's store.
addEventListener("storage", ({ key }) => {
  if (key === null || key === CHATS_KEY) void lookAgain();
});

export function setSettings(change: Partial<Settings>): void {
  chat.value = { ...chat.value, settings: { ...chat.value.settings, ...change } };
}

export function setModel(index: number, model: string): void {
  setPane(index, (pane) => ({ ...pane, model }));
}

/** A second model starts with the same questions unanswered, so the conversation begins anew. */
export function setSideBySide(isWanted: boolean): void {
  const [first] = chat.value.panes;
  const second = chatModels(models.value).find(({ id }) => id !== modelOf(first!))?.id ?? modelOf(first!);
  leave();
  chat.value = newChat(chat.value.settings, isWanted ? [first!.model, second] : [first!.model]);
}
