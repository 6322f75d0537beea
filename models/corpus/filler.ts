/** Sentences that state nothing anybody asks for: they make passages long and their facts harder to find. */
import { capitalise, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { adjectives, colours, objects, rooms, seasons, sights, verbs, weathers } from "./words.js";

const templates: readonly string[] = [
  "[The weather|The day|The whole week|The evening|The season] was {weather}[.|, and nobody minded.|, as so often in {season}.]",
  "[People say|Some believe|It is often said|Old books say] that [a {adjective} heart is worth more than gold|the {sight} looks best in {season}|good things take time|every {object} has a story].",
  "[There is|There was] [a smell of fresh bread|a sound of bells|a light wind|a long silence|much laughter|soft music] in the [air|street|{room}].",
  "[Not everything|Little|Much|Not a word] about this was written down[.| at the time.|, which is a pity.]",
  "[A visitor|A stranger|A neighbour|One of the children|A {adjective} guest] [asked many questions|made some notes|took photographs|wanted to see everything|left without a word].",
  "[The road|The path|The bridge|The railway] to the {sight} [was closed for repairs|was full of people|is narrow and steep|was lined with trees].",
  "[Nobody|Hardly anybody|Almost nobody] [noticed|remembers|knows] [why|how|when] it [began|happened|changed].",
  "[Later|After that|Soon after|Meanwhile|In the end], [everyone went home|the lights were put out|tea was served|the talk turned to other things|people began to sing].",
  "[Some|A few|Most] of the [guests|neighbours|workers|readers|visitors] [were pleased|were not so sure|had come a long way|stayed until late|had other plans].",
  "[In {season}|Every {season}|Last {season}], the {sight} is [quiet|busy|full of flowers|covered in leaves|a fine place for a walk].",
  "[The newspaper|A small leaflet|The notice board|An old letter] [said little about it|had a picture of the {sight}|was full of mistakes|told another story].",
  "[It takes|It took] [patience|courage|a steady hand|good shoes|some luck] to {verb} a {object} [well|properly|in such weather|at night].",
  "[One can|You can|Anyone can] still see the [marks|{colour} paint|old stones|traces] [on the wall|near the gate|above the door|by the {sight}].",
  "[There were|There have been] [plans|hopes|rumours|complaints|ideas] [about a new {sight}|for the coming {season}|that came to nothing|nobody had expected].",
  "[More about this|A longer report|The full story|A second part] [will follow|is planned|can be read elsewhere|would fill a book].",
  "[Of course|Naturally|To be fair|In truth], [this is not the whole story|nobody is perfect|opinions differ|much depends on the weather].",
  "[Two|Three|Several|Many] [birds|cats|children|carts|boats] [passed by|waited outside|came and went] [while this went on|all day long|in the {weather} weather].",
  "[The old|The young|The {adjective}] [clerk|gardener|driver|cook|porter] [shook his head|only smiled|told a joke|had seen worse|agreed at once].",
];

export function fillerSentence(random: Random): string {
  const text = phrase(random, random.pick(templates), {
    weather: random.pick(weathers),
    season: random.pick(seasons),
    adjective: random.pick(adjectives),
    sight: random.pick(sights),
    object: random.pick(objects),
    room: random.pick(rooms),
    colour: random.pick(colours),
    verb: random.pick(verbs),
  });
  return capitalise(text);
}
