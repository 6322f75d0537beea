/** The kinds of things passages are about: how they are named, and what can be stated of them. */
import { firm, firstName, fullName, inventName, town } from "./names.js";
import { personRelations } from "./passage-people.js";
import type { Relation } from "./passage-relation.js";
import {
  buildingRelations,
  eventRelations,
  firmRelations,
  natureRelations,
  objectRelations,
  softwareRelations,
} from "./passage-things.js";
import { capitalise } from "./phrase.js";
import type { Random } from "./random.js";
import { materials, objects, sights } from "./words.js";

export interface Kind {
  /** A name for a thing of this kind, as it stands inside a sentence. */
  readonly makeEntity: (random: Random) => string;
  /** How a second sentence may begin instead of naming the thing again. */
  readonly again: (entity: string) => string;
  readonly relations: readonly Relation[];
}

const eventNames =
  "garden party,spring fair,chess cup,book fair,harvest feast,night market,city run,school play,film night,bake sale,boat race,lantern walk,jazz evening,science day,poetry evening,kite day,flower show,open day,quiz night,tool sale".split(
    ",",
  );
const buildingNames =
  "mill,town hall,library,museum,station,castle,theatre,market hall,lighthouse,school,hospital,bath house,tower,observatory,chapel,concert hall,boat house,post office,stadium,gallery".split(
    ",",
  );
const placeAdjectives =
  "old,new,small,grand,round,tall,quiet,famous,little,hidden,royal,empty,former,upper,lower".split(",");
const thingAdjectives =
  "old,new,small,big,broken,heavy,light,round,square,lost,plain,striped,carved,rusty,shiny,dusty,folding,long,short,spare,borrowed,painted,tiny,precious,cracked".split(
    ",",
  );
const natureNames =
  "lake,river,mountain,valley,forest,island,cave,canyon,glacier,waterfall,bay,marsh,hill,cliff,desert".split(",");

const it = (): string => "it";

/** Names with "the" begin a sentence as "The". */
export const kinds: readonly (readonly [weight: number, kind: Kind])[] = [
  [6, { makeEntity: fullName, again: (entity) => entity.split(" ")[0] as string, relations: personRelations }],
  [3, { makeEntity: firstName, again: (entity) => entity, relations: personRelations }],
  [
    2,
    {
      makeEntity: (random) =>
        random.isChance(0.5)
          ? `the ${random.pick(buildingNames)} of ${town(random)}`
          : `the ${random.pick(placeAdjectives)} ${random.pick(buildingNames)}`,
      again: it,
      relations: buildingRelations,
    },
  ],
  [2, { makeEntity: firm, again: (entity) => entity, relations: firmRelations }],
  [
    3,
    {
      makeEntity: (random) => `the ${random.pick([...thingAdjectives, ...materials])} ${random.pick(objects)}`,
      again: it,
      relations: objectRelations,
    },
  ],
  [
    2,
    {
      makeEntity: (random) =>
        random.isChance(0.5) ? `the ${random.pick(eventNames)}` : `the ${random.pick(eventNames)} of ${town(random)}`,
      again: it,
      relations: eventRelations,
    },
  ],
  [
    2,
    {
      makeEntity: (random) =>
        random.isChance(0.5)
          ? inventName(random)
          : `${capitalise(random.pick(objects))}${random.pick(["DB", "Kit", "Flow", "Hub", "Box", "JS"])}`,
      again: it,
      relations: softwareRelations,
    },
  ],
  [
    2,
    {
      makeEntity: (random) => `the ${random.pick(natureNames)} ${random.pick(["of ", ""])}${inventName(random)}`,
      again: it,
      relations: natureRelations,
    },
  ],
  [
    1,
    {
      // Its name says what it is near.
      makeEntity: (random) => `the ${random.pick(sights)} near ${town(random)}`,
      again: it,
      relations: natureRelations.filter(({ name }) => name !== "near"),
    },
  ],
];
