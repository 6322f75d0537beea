/**
 * Stories of what the request names: a setting, a want, what is in its way, help, a turn and an end, with names and
 * pronouns that stay.
 */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { capitalise, phrase, typeCasually, withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import { type Plot, plots } from "./story-plots.js";
import * as lists from "./story-words.js";
import { sights } from "./words.js";

interface Person {
  readonly name: string;
  /** "fox", "baker", "girl" */
  readonly kind: string;
  readonly pronouns: Readonly<Record<"he" | "him" | "his", string>>;
}

const she = { he: "she", him: "her", his: "her" } as const;
const he = { he: "he", him: "him", his: "his" } as const;

const roles = ["hero", "friend", "third"] as const;

/**
 * Each role has names of its own, so that nobody is mistaken for another, by a model that has read few stories either.
 */
function makePerson(random: Random, role: (typeof roles)[number]): Person {
  const isGirl = random.isChance(0.5);
  const names = (isGirl ? lists.girls : lists.boys).filter((_, i) => roles[i % roles.length] === role);
  const kind = random.weighted<() => string>([
    [5, () => random.pick(lists.heroAnimals)],
    [3, () => random.pick(lists.heroJobs.filter((job) => !isGirl || !job.endsWith("man")))],
    [2, () => (isGirl ? "girl" : "boy")],
  ])();
  return { name: random.pick(names), kind, pronouns: isGirl ? she : he };
}

interface Story {
  readonly plot: Plot;
  readonly hero: Person;
  readonly helper: Person;
  readonly about: string;
  readonly text: string;
  /** What a request may name and the story then has. */
  readonly theme: string;
  readonly place: string;
}

/** "a fox named Mina" */
const introduce = ({ kind, name }: Person): string => `${withArticle(kind)} named ${name}`;

/** What the word lists give one story. */
function drawWords(random: Random): Record<string, string> {
  const pick = random.pick;
  const scene = pick(lists.scenes);
  const [trait, trait3] = random.sample(lists.traits, 2) as [string, string];
  return {
    thing: pick(lists.treasures),
    skill: pick(lists.skills),
    contest: pick(lists.contests),
    dish: pick(lists.dishes),
    noise: pick(lists.noises),
    broken: pick(lists.broken),
    ingredient: pick(lists.ingredients),
    tool: pick(lists.tools),
    danger: pick(lists.dangers),
    harmless: pick(lists.harmless),
    present: pick(lists.presents),
    comfort: pick(lists.comforts),
    place: random.isChance(0.4) ? withArticle(pick(sights)) : pick(lists.places),
    sky: pick(scene.skies),
    time: pick(scene.times),
    speed: pick(lists.speeds),
    spot: pick(lists.spots),
    trait,
    trait2: pick(["shy", "timid", "nervous", "proud", "quiet"]),
    trait3,
    feeling: pick(["sad", "tired", "afraid", "worried", "ashamed", "puzzled", "lonely", "cold"]),
    feeling2: pick(["happy", "proud", "relieved", "surprised", "grateful", "excited", "delighted"]),
  };
}

function makeSlots(random: Random, hero: Person, friend: Person, third: Person): Record<string, string> {
  const drawn = drawWords(random);
  const slots = {
    ...drawn,
    ...hero.pronouns,
    h: hero.name,
    k: friend.name,
    intro: introduce(hero),
    aK: introduce(friend),
    helper: third.name,
    aHelper: introduce(third),
    him2: friend.pronouns.him,
    his2: friend.pronouns.his,
  };
  const capitals = Object.entries(slots).map(([name, value]) => [capitalise(name), capitalise(value)]);
  return { ...slots, ...Object.fromEntries(capitals) };
}

const openings = [
  "[Once there was|Once upon a time there was|Long ago there was|There was once] {intro} who lived [near|close to|not far from] {place}.",
  "[Near|Close to] {place} lived {intro}.",
  "{Intro} lived [near|close to|not far from] {place}.",
];
const characters = [
  "[{He} was|Everyone knew that {h} was|{H} was] {trait}[.| and a little {trait3}.| but never unkind.]",
  "",
  "",
];
const skyLines = ["{Time}, {sky}.", "{Time}, {sky}.", ""];

/** Speech verbs are drawn anew for each sentence, everything else once for the story. */
function tell(random: Random, template: string, slots: Record<string, string>): string {
  const text = phrase(random, template, { ...slots, said: random.pick(lists.speeches) });
  return text.replace(/(^|[.!?] )([a-z])/g, (_, before: string, letter: string) => before + letter.toUpperCase());
}

function makeStory(random: Random, plot: Plot = random.pick(plots)): Story {
  const [hero, friend, third] = roles.map((role) => makePerson(random, role)) as [Person, Person, Person];
  const slots = makeSlots(random, hero, friend, third);
  const beats = [
    random.pick(openings),
    random.pick(characters),
    random.pick(skyLines),
    plot.want,
    plot.obstacle,
    plot.helper,
    plot.turn,
    plot.ending,
  ];
  const sentences = beats.filter((beat) => beat !== "").map((beat) => tell(random, beat, slots));
  if (random.isChance(0.15)) sentences.push(`And so ${hero.name} learned that ${phrase(random, plot.moral)}.`);
  return {
    plot,
    hero,
    helper: friend,
    about: phrase(random, plot.about, slots),
    text: sentences.join(" "),
    theme: slots[plot.slot] ?? "",
    place: slots.place as string,
  };
}

/** How a request names the hero, and the words a story must then have. */
function nameHero(random: Random, { hero }: Story): readonly [asked: string, words: readonly string[]] {
  return random.weighted<readonly [string, readonly string[]]>([
    [5, [`${withArticle(hero.kind)} [named|called] ${hero.name}`, [hero.kind, hero.name]]],
    [3, [withArticle(hero.kind), [hero.kind]]],
    [1, [hero.name, [hero.name]]],
  ]);
}

const requests =
  "[Tell me|Write|Please tell me|Can you tell me|Please write|I want to hear|Make up|Write me] [a short story|a story|a little story|a tale|a bedtime story] about {things}[.|]";

function askFor(random: Random, story: Story): Exchange {
  const [asked, words] = nameHero(random, story);
  const [second, more] = random.weighted<readonly [string, readonly string[]]>([
    [5, [story.about, story.theme === "" ? [] : [story.theme]]],
    [3, [story.place, [story.place]]],
    [3, ["", []]],
  ]);
  const things = phrase(random, second === "" ? asked : `${asked} and ${second}`);
  const question = typeCasually(random, phrase(random, requests, { things }));
  return { question, answer: story.text, check: { kind: "mentions", words: [...words, ...more] } };
}

type FollowUp = (story: Story) => readonly [question: string, answer: string];
const aboutHero: readonly FollowUp[] = [
  ({ hero }) => ["[What is the name of the hero|Who is the story about|What is the hero called]?", hero.name],
  ({ hero }) => [
    `[Who was ${hero.name}|What was ${hero.name}|What kind of hero is ${hero.name}]?`,
    withArticle(hero.kind),
  ],
];
const followUps: readonly FollowUp[] = [
  ...aboutHero,
  ({ helper }) => ["[Who helped|Who is the friend in the story|What is the friend's name]?", helper.name],
];

/** A story; now and then a question about it, or another one. */
export function makeStoryChat(random: Random): Draft {
  const story = makeStory(random);
  const exchanges = [askFor(random, story)];
  const roll = random.next();
  if (roll < 0.2) {
    // In some plots a third one helps, or the hero.
    const isFriendHelper = !story.plot.isHelperHelped && !/\{a?[Hh]elper\}/.test(story.plot.helper);
    const [question, answer] = random.pick(isFriendHelper ? followUps : aboutHero)(story);
    exchanges.push({ question: phrase(random, question), answer, check: { kind: "phrase" } });
  } else if (roll < 0.28) exchanges.push(askFor(random, makeStory(random)));
  return toDraft(exchanges);
}
