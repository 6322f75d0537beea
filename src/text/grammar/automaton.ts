/** Deterministic automata and their grammars: one rule per state, which lists the possible continuations. */
import { type CharacterRange, type CharacterSet, characterSet } from "./character-set.js";
import { type GrammarWriter, oneOf, sequence } from "./ebnf.js";
import type { Language, Languages } from "./language.js";
import { RegexError } from "./regex.js";

/** A state of a deterministic automaton: each label leads to exactly one state. */
interface State<Label> {
  readonly isFinal: boolean;
  readonly edges: readonly { readonly label: Label; readonly to: number }[];
}

/** The first state is the start. A final state can be reached from every state. */
export type Automaton<Label> = readonly State<Label>[];

/** The grammar engine compiles a state in about a millisecond. */
const MAX_STATES = 2000;
/** Characters that belong to the same sets form one class. */
const MAX_CLASSES = 256;

/** The transitions of a state, with keys in place of state numbers. */
export interface Expansion<Label, Key> {
  readonly isFinal: boolean;
  readonly edges: readonly { readonly label: Label; readonly to: Key }[];
}

/**
 * The automaton of all reachable keys, one state each; undefined: it accepts no text.
 * @param keyOf gives equal keys for equivalent states
 */
export function explore<Label, Key>(
  start: Key,
  keyOf: (state: Key) => string | number,
  expand: (state: Key) => Expansion<Label, Key>,
  maxStates = MAX_STATES,
): Automaton<Label> | undefined {
  const indexes = new Map<string | number, number>([[keyOf(start), 0]]);
  const open: Key[] = [start];
  const states: State<Label>[] = [];
  for (const key of open) {
    const { isFinal, edges } = expand(key);
    const found = edges.map(({ label, to }) => {
      const name = keyOf(to);
      let index = indexes.get(name);
      if (index === undefined) {
        index = open.push(to) - 1;
        indexes.set(name, index);
      }
      return { label, to: index };
    });
    if (open.length > maxStates) {
      throw new RegexError(`expected a form whose automaton has at most ${maxStates} states, got more`);
    }
    states.push({ isFinal, edges: found });
  }
  return pruned(states);
}

/** Removes the states from which no final state can be reached. */
function pruned<Label>(states: readonly State<Label>[]): Automaton<Label> | undefined {
  const before = states.map((): number[] => []);
  for (const [from, { edges }] of states.entries()) for (const { to } of edges) before[to]!.push(from);
  const open = [...states.keys()].filter((index) => states[index]!.isFinal);
  const isAlive = new Set(open);
  for (const index of open) {
    for (const from of before[index]!) {
      if (isAlive.has(from)) continue;
      isAlive.add(from);
      open.push(from);
    }
  }
  if (!isAlive.has(0)) return undefined;
  const places = new Map(
    [...states.keys()].filter((index) => isAlive.has(index)).map((index, place) => [index, place]),
  );
  return [...places.keys()].map((index) => ({
    isFinal: states[index]!.isFinal,
    edges: states[index]!.edges.flatMap(({ label, to }) => (places.has(to) ? [{ label, to: places.get(to)! }] : [])),
  }));
}

/**
 * An expression of the automaton's texts, each followed by `end`.
 * @param spell undefined: no answer can contain this label
 */
export function automatonExpression<Label>(
  writer: GrammarWriter,
  automaton: Automaton<Label>,
  spell: (label: Label) => string,
  end: string,
): string {
  const names = automaton.map(() => writer.reserve());
  for (const [index, { isFinal, edges }] of automaton.entries()) {
    const ways = edges.map(({ label, to }) => sequence(spell(label), names[to]!));
    writer.define(names[index]!, oneOf(isFinal ? [end, ...ways] : ways));
  }
  return names[0]!;
}

/** The automaton of those texts of a language that consist of these characters; undefined: there are none. */
export function automatonOf(
  languages: Languages,
  language: Language,
  alphabet: CharacterSet,
  maxStates = MAX_STATES,
): Automaton<CharacterSet> | undefined {
  const classes = classesOf(setsIn(languages, language), alphabet);
  languages.forgetClasses();
  const unions = new Map<string, CharacterSet>();
  const unionOf = (classIds: readonly number[]): CharacterSet => {
    const key = classIds.join(",");
    const union = unions.get(key) ?? characterSet(classIds.flatMap((classId) => classes[classId]!.set));
    unions.set(key, union);
    return union;
  };
  return explore(
    language,
    ({ id }) => id,
    (state) => {
      const ways = new Map<Language, number[]>();
      for (const [classId, { members }] of classes.entries()) {
        const next = languages.derivative(state, classId, ({ id }) => members.has(id));
        if (next === languages.never) continue;
        const classIds = ways.get(next);
        if (classIds === undefined) ways.set(next, [classId]);
        else classIds.push(classId);
      }
      const edges = [...ways].map(([to, classIds]) => ({ label: unionOf(classIds), to }));
      return { isFinal: state.isNullable, edges };
    },
    maxStates,
  );
}

/**
 * The character sets among the parts of a language. A complement may accept characters that none of its parts contains.
 */
function setsIn({ anyCharacter }: Languages, language: Language): readonly Language[] {
  const seen = new Set([language, anyCharacter]);
  for (const each of seen) for (const part of each.parts) seen.add(part);
  return [...seen].filter(({ kind }) => kind === "set");
}

interface CharacterClass {
  readonly set: CharacterSet;
  /** Ids of the sets that contain the class's characters. */
  readonly members: ReadonlySet<number>;
}

/** Divides the alphabet into classes such that each set contains all or none of a class's characters. */
function classesOf(sets: readonly Language[], alphabet: CharacterSet): readonly CharacterClass[] {
  const changes = new Map<number, number[]>();
  const all = [...sets.map(({ id, set }) => ({ id, set })), { id: -1, set: alphabet }];
  for (const { id, set } of all) {
    for (const [first, last] of set) {
      for (const point of [first, last + 1]) {
        const there = changes.get(point);
        if (there === undefined) changes.set(point, [id]);
        else there.push(id);
      }
    }
  }
  const points = [...changes.keys()].sort((a, b) => a - b);
  const members = new Set<number>();
  const classes = new Map<string, { ranges: CharacterRange[]; members: ReadonlySet<number> }>();
  for (const [index, point] of points.entries()) {
    for (const id of changes.get(point)!) if (!members.delete(id)) members.add(id);
    if (!members.has(-1)) continue;
    const key = [...members].sort((a, b) => a - b).join(",");
    let found = classes.get(key);
    if (found === undefined) {
      found = { ranges: [], members: new Set(members) };
      classes.set(key, found);
      if (classes.size > MAX_CLASSES) {
        throw new RegexError(`expected patterns that tell at most ${MAX_CLASSES} kinds of characters apart, got more`);
      }
    }
    found.ranges.push([point, points[index + 1]! - 1]);
  }
  return [...classes.values()].map((each) => ({ set: characterSet(each.ranges), members: each.members }));
}

/** Whether the automaton accepts this text. */
export function accepts(automaton: Automaton<CharacterSet>, text: string): boolean {
  let state = automaton[0];
  for (const character of text) {
    const point = character.codePointAt(0)!;
    const edge = state?.edges.find(({ label }) => label.some(([first, last]) => first <= point && point <= last));
    state = edge === undefined ? undefined : automaton[edge.to];
  }
  return state?.isFinal === true;
}
