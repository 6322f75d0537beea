/** The plain word lists. Facts about words (a fox's sound, a lemon's colour) live in fact-tables.ts. */

const split = (text: string): readonly string[] => text.trim().split(/\s+/);
const splitLines = (text: string): readonly string[] => text.trim().replace(/\s+/g, " ").split(", ");

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

export const adjectives =
  splitLines(`small, big, old, young, kind, clever, quiet, brave, lazy, happy, hungry, tired, curious, gentle, proud, shy,
cheerful, clumsy, patient, quick, lonely, friendly, careful, stubborn, honest, grumpy, playful, wise`);

export const weathers = splitLines("sunny, rainy, cloudy, windy, foggy, snowy, stormy, warm, cold, hot");

export const days = split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday");
export const months = split("January February March April May June July August September October November December");
export const seasons = split("spring summer autumn winter");

export const numberWords =
  split(`zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty`);

export const materials = split(
  "wood stone brick glass copper iron steel clay marble paper cotton wool silk leather bamboo cork granite slate tin brass linen velvet",
);

/** Things that small code and texts are about. */
export const nouns = split(`
account anchor answer apple arrow badge bag banner barrel battery beam bench bill bird blade block board bolt branch brick budget bus
button cable cake camera canal card cargo carpet cart case chain channel chapter chart circle client cloud coin colour column corner
counter crate crop cycle deck desk detail dish door dress driver edge engine entry event factor farm fence field file filter finger fire
fish floor flower folder frame fruit fuel game gate gift glass goal grain graph grid group guest guide handle harbour heart hook horn
hour house image index invoice island item jacket job journey judge juice kettle kitchen label ladder lamp lane layer leaf lens letter
level limit line list loaf lock machine magnet market mask match meal member message metal meter minute model moment motor mouse needle
nest note number ocean office option orange orbit order oven owner page panel paper parcel part path pattern pencil person petal photo
piano picture piece pilot pipe pixel planet plate player pocket point pond price prize queue radio rail record region report result
ribbon ring river robot roof room root route row rule sail salad sample score screen seat seed sensor server shadow shape shelf shell
ship signal size slot song soup space spark speed spoon square stage star stamp station step stock stone store storm story stream street
student sum sugar switch table tag target task team ticket tide tile timer title token tool total tower town toy track train tray tree
trip truck tunnel unit user value vase vector verse video view village visit voice wagon wall wave week weight wheel wind window wing
word worker year zone`);

/** Nouns that may name things in code: no keyword, no builtin, no name that the bodies of functions use themselves. */
export const identifiers = nouns.filter(
  (noun) => !["case", "switch", "list", "sum", "total", "value", "word", "result", "number"].includes(noun),
);

export const verbs = split(`
add build call carry change check choose clean clear close collect cook copy count cover cross cut draw drop fill filter find fix fold
follow format gather get give grow guard help hold join keep knock lead learn lift load make map mark measure merge move open order pack
paint parse pick plan plant point pour print pull push reach read record remove repair reset reverse roll scale scan search seek send
serve set shift show sign skip sort split stack start stop store stretch sum swap take test tie touch trace track train trim turn update
visit wait walk warm wash watch weigh wrap write`);
