/** Summaries of reports: the facts stand among other sentences, and the summary states them in one or two. */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { fillerSentence } from "./filler.js";
import { firm, fullName, inventName, town } from "./names.js";
import { capitalise, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { amount, date, time } from "./values.js";
import { colours, jobs, materials, months, nouns, objects, rooms, seasons, sights, weathers } from "./words.js";

interface ReportKind {
  readonly name: string;
  readonly draw: (random: Random) => Record<string, string>;
  /** Each states one fact of the summary, in any order. */
  readonly facts: readonly string[];
  /** State things the summary leaves out. */
  readonly details: readonly string[];
  readonly summary: string;
  /** The slots the summary must have. */
  readonly keys: readonly string[];
}

const number = (random: Random, min: number, max: number): string => String(random.int(min, max));

const reportKinds: readonly ReportKind[] = [
  {
    name: "[sales report|report on sales]",
    draw: (random) => ({
      firm: firm(random),
      month: random.pick(months),
      thing: `${random.pick(materials)} ${random.pick(objects)}s`,
      count: number(random, 12, 9000),
      share: number(random, 2, 60),
      way: random.pick(["up", "down"]),
      boss: fullName(random),
      place: town(random),
      plan: random.pick(nouns),
    }),
    facts: [
      "[{firm} sold {count} {thing} in {month}.|In {month}, {count} {thing} left the stores of {firm}.|{firm} reports {count} {thing} sold in {month}.]",
      "[Sales were {way} {share} percent.|Compared with last year, sales are {way} {share} percent.|That is {way} {share} percent on the year before.]",
    ],
    details: [
      "[{boss} thanked the whole team.|{boss} called it a month to remember.]",
      "[The shop in {place} had new windows.|In {place}, the sign above the door was changed.]",
      "[A new {plan} is planned.|Some customers asked for a {plan}.]",
      "[Most people paid by card.|Few goods came back.]",
    ],
    summary: "{firm} sold {count} {thing} in {month}; sales are {way} {share} percent.",
    keys: ["firm", "count", "thing", "month", "way", "share"],
  },
  {
    name: "[incident report|report of the night shift|outage report]",
    draw: (random) => ({
      service: `${random.pick(nouns)}-${random.pick(["api", "db", "worker", "proxy"])}`,
      start: time(random),
      minutes: number(random, 3, 400),
      cause: `a ${random.pick(["full", "broken", "missing", "wrong", "slow"])} ${random.pick(nouns)}`,
      who: fullName(random),
      users: number(random, 10, 9000),
      tool: random.pick(nouns),
    }),
    facts: [
      "[The service {service} was down for {minutes} minutes.|For {minutes} minutes {service} did not answer.|{service} failed and stayed down for {minutes} minutes.]",
      "[The cause was {cause}.|{cause} was behind it.|We traced it to {cause}.]",
      "[{who} fixed it.|It was {who} who brought it back.|{who} found the way to repair it.]",
    ],
    details: [
      "[The first alarm came at {start}.|At {start} the phones began to ring.]",
      "[About {users} users saw errors.|{users} people had to wait.]",
      "[The {tool} will be checked next week.|A better {tool} has been ordered.]",
      "[No data were lost.|The logs are kept for a month.]",
    ],
    summary: "{service} was down for {minutes} minutes because of {cause}; {who} fixed it.",
    keys: ["service", "minutes", "cause", "who"],
  },
  {
    name: "[meeting notes|minutes of a meeting|notes]",
    draw: (random) => ({
      team: `${random.pick(colours)} team`,
      topic: `the ${random.pick(materials)} ${random.pick(objects)}`,
      who: fullName(random),
      what: `the new ${random.pick(nouns)}`,
      day: date(random),
      money: amount(random),
      other: fullName(random),
      room: random.pick(rooms),
    }),
    facts: [
      "[The {team} met to talk about {topic}.|{topic} was the subject of the {team}'s meeting.|The {team} discussed {topic}.]",
      "[They decided to buy {what}.|In the end they agreed to buy {what}.|All voted to buy {what}.]",
      "[{who} will see to it by {day}.|By {day}, {who} takes care of it.|The task goes to {who}, until {day}.]",
    ],
    details: [
      "[It may cost {money} euros.|{money} euros were set aside.]",
      "[{other} was ill and sent a letter.|{other} came late because of the trains.]",
      "[They met in the {room}.|The {room} was too small for all of them.]",
      "[There was coffee and cake.|The window was open.]",
    ],
    summary: "The {team} talked about {topic} and decided to buy {what}; {who} will do it by {day}.",
    keys: ["team", "topic", "what", "who", "day"],
  },
  {
    name: "[weather report|report on the weather]",
    draw: (random) => ({
      town: town(random),
      weather: random.pick(weathers),
      low: number(random, -15, 9),
      high: number(random, 10, 38),
      next: random.pick(["rain", "snow", "sun", "fog", "wind", "storms", "hail"]),
      day: random.pick(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]),
      sight: random.pick(sights),
      season: random.pick(seasons),
    }),
    facts: [
      "[Today it is {weather} in {town}.|In {town} the day is {weather}.|{town} has a {weather} day.]",
      "[It will be {high} degrees at most.|The highest value is {high} degrees.|By noon it reaches {high} degrees.]",
      "[{next} is expected on {day}.|On {day} there will be {next}.|{day} brings {next}.]",
    ],
    details: [
      "[At night it was {low} degrees.|The night was cold, with {low} degrees.]",
      "[The road to the {sight} is open.|Walks to the {sight} are pleasant.]",
      "[For {season} this is quite normal.|Old people remember a {season} like this.]",
      "[The sun sets a little later each day.|Bring a coat in the evening.]",
    ],
    summary: "It is {weather} in {town} with up to {high} degrees; {next} is expected on {day}.",
    keys: ["weather", "town", "high", "next", "day"],
  },
  {
    name: "[match report|report of a game]",
    draw: (random) => {
      const goals = random.int(1, 8);
      return {
        winner: `${town(random)} ${random.pick(["United", "City", "Rovers", "Stars"])}`,
        loser: `${town(random)} ${random.pick(["Bears", "Eagles", "Sharks", "Foxes"])}`,
        goals: String(goals),
        less: number(random, 0, goals - 1),
        hero: fullName(random),
        crowd: number(random, 90, 60000),
        park: `${inventName(random)} Park`,
        weather: random.pick(weathers),
      };
    },
    facts: [
      "[{winner} beat {loser}.|{loser} lost to {winner}.|{winner} were too strong for {loser}.]",
      "[The game ended {goals} to {less}.|At the end it stood {goals} to {less}.|{goals} to {less} was the result.]",
      "[The last goal came from {hero}.|{hero} made the last goal.|It was {hero} who scored last.]",
    ],
    details: [
      "[{crowd} people had come.|The {crowd} on the seats were loud.]",
      "[They played at {park}.|{park} was full of flags.]",
      "[The evening was {weather}.|It was {weather} all day.]",
      "[The referee had little to do.|Both coaches shook hands.]",
    ],
    summary: "{winner} beat {loser} {goals} to {less}; {hero} scored the last goal.",
    keys: ["winner", "loser", "goals", "less", "hero"],
  },
  {
    name: "[news item|newspaper report|report from the paper]",
    draw: (random) => ({
      town: town(random),
      building: random.pick([
        "library",
        "school",
        "bridge",
        "museum",
        "hospital",
        "station",
        "theatre",
        "market hall",
        "swimming pool",
        "tower",
      ]),
      cost: number(random, 2, 90),
      year: number(random, 2019, 2031),
      who: fullName(random),
      job: random.pick(["mayor", "architect", "minister", "head of the council"]),
      material: random.pick(materials),
      old: number(random, 1600, 1950),
    }),
    facts: [
      "[{town} will get a new {building}.|A new {building} is to be built in {town}.|The council of {town} has agreed to a new {building}.]",
      "[It will cost {cost} million euros.|The price is {cost} million euros.|{cost} million euros are needed for it.]",
      "[It should open in {year}.|The doors will open in {year}.|People can use it from {year}.]",
    ],
    details: [
      '["We have waited long for this," said {who}, the {job}.|{who}, the {job}, showed the plans.]',
      "[Its walls will be of {material}.|Much {material} will be used.]",
      "[The old one was from {old}.|A part from {old} will stay as it is.]",
      "[Neighbours hope for less noise.|Some trees must go, others will be planted.]",
    ],
    summary: "{town} will get a new {building} for {cost} million euros, which should open in {year}.",
    keys: ["town", "building", "cost", "year"],
  },
  {
    name: "[project report|status report|weekly report]",
    draw: (random) => ({
      project: inventName(random),
      who: fullName(random),
      done: number(random, 3, 97),
      problem: `the ${random.pick(nouns)} is ${random.pick(["late", "too slow", "too small", "missing", "broken", "too heavy"])}`,
      day: date(random),
      team: number(random, 2, 40),
      part: random.pick(nouns),
      other: random.pick(nouns),
    }),
    facts: [
      "[The project {project} is {done} percent done.|{done} percent of the work on {project} is done.|{project} stands at {done} percent.]",
      "[The main problem is that {problem}.|What holds us up: {problem}.|We are worried because {problem}.]",
      "[The new end date is {day}.|It should be finished on {day}.|We plan to end on {day}.]",
    ],
    details: [
      "[{who} leads it.|The report was written by {who}.]",
      "[{team} people work on it.|The team has {team} members.]",
      "[The {part} was tested twice.|Last week the {part} was painted.]",
      "[The {other} can wait.|Nobody has asked for the {other}.]",
    ],
    summary: "{project} is {done} percent done and should end on {day}; the main problem is that {problem}.",
    keys: ["project", "done", "day", "problem"],
  },
  {
    name: "[travel report|trip report|diary of a trip]",
    draw: (random) => ({
      who: fullName(random),
      from: town(random),
      to: town(random),
      how: random.pick(["train", "bicycle", "bus", "boat", "car", "plane"]),
      days: number(random, 2, 40),
      best: `the ${random.pick(sights)}`,
      food: random.pick(["soup", "bread", "fish", "cheese", "cake", "rice"]),
      bag: random.pick(objects),
    }),
    facts: [
      "[{who} travelled from {from} to {to} by {how}.|By {how}, {who} went from {from} to {to}.|The trip of {who} led from {from} to {to}, by {how}.]",
      "[It took {days} days.|After {days} days it was over.|The way lasted {days} days.]",
      "[The best part was {best}.|{best} was the best of all.|Nothing was as good as {best}.]",
    ],
    details: [
      "[The {food} on the way was excellent.|There was {food} every evening.]",
      "[A {bag} got lost and was found again.|The {bag} was too heavy.]",
      "[The beds were hard.|The people were friendly.]",
      "[It rained on two days.|The pictures will follow.]",
    ],
    summary: "{who} travelled from {from} to {to} by {how} in {days} days; the best part was {best}.",
    keys: ["who", "from", "to", "how", "days", "best"],
  },
  {
    name: "[letter|email|message from the office]",
    draw: (random) => ({
      who: fullName(random),
      job: random.pick(jobs),
      event: random.pick([
        "summer party",
        "fire drill",
        "open day",
        "book sale",
        "staff meeting",
        "computer course",
        "spring cleaning",
      ]),
      day: date(random),
      time: time(random),
      room: random.pick(rooms),
      bring: random.pick(objects),
      phone: number(random, 100, 9999),
    }),
    facts: [
      "[The {event} is on {day}.|We will have the {event} on {day}.|On {day} it is time for the {event}.]",
      "[It begins at {time} in the {room}.|Come to the {room} at {time}.|We start in the {room} at {time}.]",
      "[Please bring a {bring}.|Everybody should have a {bring}.|Do not forget a {bring}.]",
    ],
    details: [
      "[Questions go to {who}, our {job}.|{who}, the {job}, knows more.]",
      "[Call {phone} if you cannot come.|The number for questions is {phone}.]",
      "[Last year it was great fun.|Many have asked for it.]",
      "[Families are welcome.|The canteen is closed that day.]",
    ],
    summary: "The {event} is on {day} at {time} in the {room}; bring a {bring}.",
    keys: ["event", "day", "time", "room", "bring"],
  },
  {
    name: "[research report|report of a study|study]",
    draw: (random) => ({
      school: `the University of ${town(random)}`,
      what: random.pick([
        "tea",
        "sleep",
        "music",
        "walking",
        "chess",
        "cold water",
        "reading",
        "laughing",
        "gardening",
      ]),
      effect: random.pick([
        "lowers stress",
        "helps memory",
        "improves balance",
        "makes people friendlier",
        "strengthens the heart",
        "shortens colds",
      ]),
      people: number(random, 20, 4000),
      weeks: number(random, 2, 60),
      who: `Dr. ${inventName(random)}`,
      gain: number(random, 3, 70),
      thing: random.pick(nouns),
    }),
    facts: [
      "[A study of {school} shows that {what} {effect}.|Researchers at {school} found that {what} {effect}.|According to {school}, {what} {effect}.]",
      "[{people} people took part.|The study had {people} members.|They asked {people} people.]",
      "[It ran for {weeks} weeks.|After {weeks} weeks the effect was clear.|For {weeks} weeks they took notes.]",
    ],
    details: [
      "[{who} was careful: more work is needed.|{who} wants to repeat it.]",
      "[Some gained {gain} percent, others nothing.|The best value was {gain} percent.]",
      "[Each member got a {thing}.|A {thing} was used to measure.]",
      "[Children were not part of it.|The money came from the town.]",
    ],
    summary: "A study of {school} with {people} people over {weeks} weeks shows that {what} {effect}.",
    keys: ["school", "people", "weeks", "what", "effect"],
  },
];

const wishes =
  "[Summarise this {name}[| in one sentence| briefly]|Summarize this[| in one sentence]|Give me a short summary of this {name}|Tell me the main point of this {name}|Write a one-sentence summary|Sum up this {name}|TL;DR of this {name}|Shorten this {name} to one sentence]";

function makeSummary(random: Random): Exchange {
  const kind = random.pick(reportKinds);
  const slots = kind.draw(random);
  const write = (template: string): string => capitalise(phrase(random, template, slots));
  const details = random.sample(kind.details, random.int(1, kind.details.length)).map(write);
  const fillers = Array.from({ length: random.pick([0, 0, 1, 3, 6, 10]) }, () => fillerSentence(random));
  const [lead, ...rest] = kind.facts.map(write) as [string, ...string[]];
  // The first fact says what it is all about; the others refer to it.
  const others = random.sample([...details, ...fillers], details.length + fillers.length);
  for (const fact of rest) others.splice(random.int(0, others.length), 0, fact);
  const report = [lead, ...others].join(random.isChance(0.1) ? "\n" : " ");
  const name = phrase(random, kind.name);
  const wish = phrase(random, wishes, { name });
  const question = phrase(
    random,
    "[{wish}:\n\n{report}|{wish}.\n{report}|{report}\n\n{wish}.|{wish}: {report}|Text: {report}\n\n{wish}.]",
    { wish, report },
  );
  const answer = capitalise(phrase(random, kind.summary, slots));
  return { question, answer, check: { kind: "overlap", facts: kind.keys.map((key) => slots[key] as string) } };
}

/** One or two reports with their summaries. */
export const makeSummaryChat = (random: Random): Draft =>
  toDraft(Array.from({ length: random.pick([1, 1, 2, 3]) }, () => makeSummary(random)));
