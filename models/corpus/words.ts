/** The plain word lists. Facts about words (a fox's sound, a lemon's colour) live in fact-tables.ts. */

const split = (text: string): readonly string[] => text.trim().split(/\s+/);
const splitLines = (text: string): readonly string[] => text.trim().split(/\s*,\s*/);

export const names = split(`
Ada Adam Agnes Aisha Alba Albert Alice Amara Amir Amy Ana Andrei Anna Anton Arthur Asha Astrid Ava Axel Beatrice Ben Bella
Bianca Boris Bruno Carla Carlos Cecil Chen Chloe Clara Colin Cora Daniel Daria David Dara Diego Dina Dora Edgar Edith Ella Elena
Eli Elias Elsa Emil Emma Enzo Erik Esther Eva Farid Fatima Felix Fiona Flora Frank Freya George Gina Grace Greta Hana Hannah Harry
Hassan Hector Heidi Helen Henry Hugo Ida Igor Ines Iris Isaac Ivan Ivy Jack Jakob James Jana Jane Jonas Jorge Josef Julia Julian
June Kai Karim Karl Kate Kenji Kira Klara Laila Lars Laura Lea Leo Leon Lena Liam Lily Lina Lola Lucas Lucy Luis Luna Magnus Maja
Malik Mara Marco Maria Marie Mark Martin Mateo Maya Mia Mila Milo Mina Mira Mohan Nadia Nadir Nils Nina Noah Nora Olga Oliver Omar
Oscar Otto Pablo Paul Pavel Pedro Petra Piotr Priya Rafael Rahul Rania Ravi Rita Robert Rosa Ruben Ruth Sam Samir Sara Sasha Selma
Simon Sofia Sonia Stella Sven Tara Tariq Theo Thomas Tina Tobias Tom Uma Valentin Vera Victor Viola Walter Wanda Will Xenia Yara
Yusuf Yuki Zara Zoe`);

export const surnames = split(`
Abbott Alvarez Baker Banerjee Berg Bishop Brandt Carter Castro Chen Cohen Costa Dahl Dubois Fischer Fletcher Garcia Green Haddad
Hansen Hill Ito Jansen Khan Kim Kovacs Larsen Lopez Marsh Meyer Moreau Nakamura Novak Okafor Olsen Park Patel Peters Quinn Reed
Rossi Sato Silva Singh Stone Suarez Tanaka Turner Vogel Walker Weber Wood Young Zhang Ziegler`);

export const cities = split(`
Accra Amsterdam Athens Bergen Berlin Bern Bilbao Bologna Boston Bristol Brussels Cairo Chicago Cork Dakar Delhi Denver Dublin
Florence Geneva Ghent Graz Hamburg Hanoi Havana Helsinki Istanbul Kyoto Krakow Lagos Leeds Leipzig Lima Lisbon London Lyon Madrid
Malmo Manila Marseille Milan Montreal Munich Nairobi Naples Nice Osaka Oslo Paris Porto Prague Quito Riga Rome Rotterdam Salzburg
Seattle Seoul Seville Sofia Stockholm Sydney Tallinn Tokyo Toronto Trieste Turin Utrecht Valencia Venice Vienna Vilnius Warsaw
York Zagreb Zurich`);

export const colours = split("red blue green yellow orange purple pink brown black white grey silver golden");

export const jobs =
  splitLines(`baker, teacher, nurse, doctor, farmer, painter, carpenter, tailor, gardener, fisherman, librarian, pilot,
sailor, cook, writer, singer, dancer, builder, plumber, dentist, engineer, driver, shepherd, miller, clockmaker, potter, lawyer, musician,
photographer, beekeeper, astronomer, firefighter, postman, shopkeeper, waiter, weaver, judge, actor, chemist, mechanic`);

export const hobbies =
  splitLines(`painting, reading, swimming, cooking, chess, hiking, fishing, dancing, singing, gardening, running,
cycling, knitting, skating, sailing, pottery, photography, baking, football, tennis, climbing, drawing, astronomy, bird watching,
playing the piano, playing the guitar, playing the violin, collecting stamps, collecting coins, building kites`);

export const sights =
  splitLines(`river, forest, mountain, lake, island, bridge, castle, village, garden, harbour, tower, mill, cave, valley,
meadow, desert, beach, market, library, lighthouse, orchard, waterfall, farm, station, barn, hill, pond, field, ship, tree, moon, road`);

export const objects =
  splitLines(`lamp, key, map, book, letter, ring, clock, kite, drum, bell, basket, blanket, box, coat, cup, hat, ladder,
mirror, pencil, rope, scarf, shoe, spoon, stone, umbrella, violin, wheel, boat, ball, candle, coin, crown, feather, flute, hammer,
lantern, necklace, telescope, wagon, whistle, bicycle, flag, button, compass, pillow, chair, table, bottle, bucket, brush`);

export const rooms =
  splitLines(`kitchen, attic, cellar, garden shed, bedroom, hallway, garage, library, workshop, office, bathroom, school,
museum, church, town hall, bakery, station, barn, boat house, greenhouse`);

export const spots =
  splitLines(`under the bed, behind the door, on the top shelf, in the red box, beside the window, under the stairs,
in the kitchen drawer, behind the clock, on the roof, inside the old trunk, next to the stove, under the carpet, in the blue bag,
on the kitchen table, behind the curtain, in the garden, near the well, under the oak tree, in the hay, beside the gate`);

export const adjectives =
  splitLines(`small, big, old, young, kind, clever, quiet, brave, lazy, happy, hungry, tired, curious, gentle, proud, shy,
cheerful, clumsy, patient, quick, lonely, friendly, careful, stubborn, honest, grumpy, playful, wise`);

export const traits = splitLines(
  "kind, clever, quiet, brave, funny, patient, honest, careful, cheerful, friendly, gentle, wise, tidy, strong",
);

export const weathers = splitLines("sunny, rainy, cloudy, windy, foggy, snowy, stormy, warm, cold, hot");

export const days = split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday");
export const months = split("January February March April May June July August September October November December");
export const seasons = split("spring summer autumn winter");

export const numberWords =
  split(`zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty`);

const syllables = split(
  "ba be bo da de do fa fi ka ko la le li lo ma mi mo na ne no pa pe ra re ri ro sa se so ta te ti to va ve vi zo",
);

/** A name from no list, so that copying it is the only way to answer with it. `next` is uniform in [0, 1). */
export function inventName(next: () => number): string {
  const numSyllables = 2 + Math.floor(next() * 2);
  let name = "";
  for (let index = 0; index < numSyllables; index++) name += syllables[Math.floor(next() * syllables.length)] ?? "";
  return name.charAt(0).toUpperCase() + name.slice(1);
}
