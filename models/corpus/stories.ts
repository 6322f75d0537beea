/** Little stories about the things the prompt names, from a few plots with many wordings. */
import type { Exchange, ExchangeMaker } from "./chat.js";
import { animals } from "./fact-tables.js";
import { capitalise, phrase, typeCasually, withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import { adjectives, cities, jobs, names, objects, sights, weathers } from "./words.js";

/**
 * A hero (with or without a name), a second thing, and the sentences of each plot. `{hero}` is "the fox" or "Mara", `{Hero}` the
 * same at the start of a sentence, `{intro}` introduces it, `{it}`/`{It}`/`{its}` are its pronouns.
 */
const placePlots: readonly (readonly string[])[] = [
  [
    "[Once there was|Once upon a time there was|There once was|Long ago there was] {intro} who lived near {aPlace}.",
    "[Every day|Every morning|Each evening] {hero} [went to the {place}|walked to the {place}|sat by the {place}] and [watched the clouds|sang a little song|dreamed of far lands|listened to the wind].",
    "One {weather} day {hero} [found|saw] {anObject} [there|near the {place}|on the ground].",
    "[It belonged to|Somebody said it belonged to] {friend}, [who had looked for it everywhere|who had lost it long ago|who missed it very much].",
    "{Hero} [took it back|carried it back|brought it home to {friend}], and {friend} [was very happy|smiled and said thank you|laughed with joy].",
    "[From then on they were good friends.|After that they met at the {place} every day.|That night {hero} slept very well.]",
  ],
  [
    "[Once there was|Once upon a time there was|There was] {intro} who [wanted to see|dreamed of|had never seen] the {place}.",
    "[The way was long|The path was steep|It was far away], but {hero} was {adjective} and [did not give up|kept going|walked all day].",
    "[On the way|Halfway there|Near {city}] {hero} met {friend}, [who shared some bread|who knew the way|who was going there too].",
    "[Together they walked on|They went on together|Side by side they travelled] until they [saw|reached] the {place}.",
    "[It was more beautiful than they had thought.|It shone in the evening light.|They stood still and said nothing for a long time.]",
    "[They stayed until the stars came out.|Then they went home, tired and happy.|{Hero} never forgot that day.]",
  ],
  [
    "{Intro} lived [by|close to|not far from] {aPlace}.",
    "[One night|One {weather} night|One morning] there was a [big storm|loud noise|great wind], and [the animals|the people|the neighbours] were afraid.",
    "[Only {hero} was not afraid|But {hero} stayed calm|{Hero} was afraid too, but {it} was brave].",
    "{It2} took {anObject} and [went out to help|led everyone to a safe place|looked for {friend}, who was lost near the {place}].",
    "[When the sun came up|In the morning|At last], everyone was safe.",
    "[They thanked {hero} and had a big feast.|From that day on everybody called {hero} the hero of the {place}.|{Hero} only smiled and went to sleep.]",
  ],
  [
    "[Once there was|There was once|Long ago there was] {intro} who was always {adjective}.",
    "[One day|One {weather} morning|One afternoon] {hero} [came to|stopped at|went down to] the {place} and [saw|met] {friend}.",
    '["Why are you so {adjective}?"|"What are you doing here?"|"Where are you going?"] asked {friend}.',
    '["I am looking for {anObject},"|"I want to learn something new,"|"I am looking for a friend,"] said {hero}.',
    '["Then come with me,"|"I can help you,"|"We can look together,"] said {friend}, and they [walked along the {place}|sat down by the {place}|went on together].',
    "[And so {hero} was not alone any more.|That is how {hero} and {friend} became friends.|They talked until it was dark.]",
  ],
];

const objectPlots: readonly (readonly string[])[] = [
  [
    "[Once there was|Once upon a time there was|There was] {intro} who [found|had|bought] {anObject}.",
    "[It was old and dusty|It was small and pretty|It looked like any other {object}], but [it was magic|it could grant one wish|it shone in the dark].",
    "{Hero} [thought for a long time|did not know what to wish for|asked {friend} for advice].",
    '"[I wish for a warm home|I wish that nobody is lonely|I wish for rain on the dry fields]," said {hero} at last.',
    "[The {object} began to shine|There was a soft sound|The wind blew], and [the wish came true|it was so|everything changed].",
    "[{Hero} kept the {object} for ever.|Then {hero} gave the {object} to {friend}.|And everyone was happy.]",
  ],
  [
    "{Intro} [had lost|could not find] the {object}.",
    "{Hero} looked [under the bed|in the garden|behind the door], [in the kitchen|on the roof|near the well] and [in the barn|under the table|by the gate], but [it was not there|found nothing].",
    'Then {friend} came by and said, "[I saw it|I think it is|Have you looked] near the {place}[.|, my friend.]"',
    "They [ran there|went there together|hurried to the {place}] and there was the {object}.",
    '["Thank you!" said {hero}.|{Hero} jumped with joy.|{Hero} laughed and laughed.]',
    "[After that {hero} was more careful.|To say thank you, {hero} made a cake for {friend}.|They had tea together and talked until evening.]",
  ],
];

const requests =
  "[Tell me|Write|Please tell me|Can you tell me|Please write|I want to hear|Make up] [a short story|a story|a little story|a small story|a tale] about {things}[.|]";

interface Hero {
  /** As the request names it. */
  readonly asked: string;
  readonly intro: string;
  readonly subject: string;
}

function makeHero(random: Random): Hero {
  const adjective = random.pick(adjectives);
  const animal = random.pick(animals).name;
  const roll = random.next();
  if (roll < 0.5) {
    const isDescribed = random.isChance(0.25);
    const intro = withArticle(isDescribed || random.isChance(0.4) ? `${adjective} ${animal}` : animal);
    return { asked: isDescribed ? intro : withArticle(animal), intro, subject: `the ${animal}` };
  }
  const name = random.pick(names);
  if (roll < 0.75)
    return {
      asked: phrase(random, `${withArticle(animal)} [named|called] ${name}`),
      intro: `${withArticle(animal)} [named|called] ${name}`,
      subject: name,
    };
  const job = random.pick(jobs);
  return {
    asked: roll < 0.9 ? `${withArticle(job)} named ${name}` : withArticle(job),
    intro: roll < 0.9 ? `${withArticle(job)} named ${name}` : withArticle(job),
    subject: roll < 0.9 ? name : `the ${job}`,
  };
}

export const makeStory: ExchangeMaker = (random): Exchange => {
  const hero = makeHero(random);
  const place = random.pick(sights);
  const object = random.pick(objects);
  const friendAnimal = random.pick(animals).name;
  const isFriendAsked = random.isChance(0.2);
  const friend = random.isChance(0.5) ? random.pick(names) : `the ${friendAnimal}`;
  const askedFriend = friend.startsWith("the ") ? withArticle(friendAnimal) : friend;
  const isAboutObject = random.isChance(0.35);
  const second = isAboutObject ? withArticle(object) : withArticle(place);
  const isAlone = !isFriendAsked && random.isChance(0.12);
  const things = isFriendAsked
    ? `${hero.asked}, ${askedFriend} and ${second}`
    : isAlone
      ? hero.asked
      : `${hero.asked} and ${second}`;
  const intro = phrase(random, hero.intro);
  const slots = {
    intro,
    Intro: capitalise(intro),
    hero: hero.subject,
    Hero: capitalise(hero.subject),
    friend,
    it: hero.subject,
    It2: capitalise(hero.subject),
    place,
    aPlace: withArticle(place),
    object,
    anObject: withArticle(object),
    adjective: random.pick(adjectives),
    city: random.pick(cities),
    weather: random.pick(weathers),
    things,
  };
  const plot = random.pick(isAboutObject ? objectPlots : placePlots);
  // The last sentence always stays: a story ends.
  const numSkipped = random.isChance(0.2) ? 1 : 0;
  const kept = plot.filter((_, index) => numSkipped === 0 || index !== 3);
  const answer = kept.map((sentence) => capitalise(phrase(random, sentence, slots))).join(" ");
  return { question: typeCasually(random, phrase(random, requests, slots)), answer };
};
