/** Number words, months, weekdays and units, each with one form for all of its spellings. */

const table = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text
      .trim()
      .split(/\s*\n\s*/)
      .flatMap((line) => {
        const [form, ...spellings] = line.split(" ");
        return [form!, ...spellings].map((spelling): [string, string] => [spelling.replaceAll("_", " "), form!]);
      }),
  );

/** Words of one number, in English: `twenty` + `five`, `two` + `hundred`. */
export const ENGLISH_NUMBERS: ReadonlyMap<string, number> = new Map(
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    .split(" ")
    .map((word, value): [string, number] => [word, value])
    .concat("twenty thirty forty fifty sixty seventy eighty ninety".split(" ").map((word, i) => [word, 20 + 10 * i])),
);

export const SCALES: ReadonlyMap<string, number> = new Map([
  ["hundred", 100],
  ["thousand", 1e3],
  ["million", 1e6],
  ["billion", 1e9],
  ["trillion", 1e12],
]);

/** Ordinals as words; ordinals in digits are read from the number. */
export const ORDINALS: ReadonlyMap<string, number> = new Map(
  "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    .split(" ")
    .map((word, i): [string, number] => [word, i + 1]),
);

/** Other words for numbers, the same in every context. `_` stands for a space. */
export const FIXED_NUMBERS: ReadonlyMap<string, number> = new Map([
  ["dozen", 12],
  ["half", 0.5],
  ["quarter", 0.25],
  ["twice", 2],
  ["thrice", 3],
  ["double", 2],
  ["triple", 3],
]);

const values = (words: string): [string, number][] => words.split(" ").map((word, i): [string, number] => [word, i]);

/** Number words of other languages from 0 on. Words that mean something else too (un, une, ein, uno) count as words. */
export const FOREIGN_NUMBERS: ReadonlyMap<string, number> = new Map(
  [
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig",
    "zéro - deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    "cero - dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince",
    "zero - due tre quattro cinque sei sette otto nove dieci undici dodici",
    "zero - dois três quatro cinco seis sete oito nove dez onze doze",
    "nul - twee drie vier vijf zes zeven acht negen tien elf twaalf",
  ].flatMap((words) => values(words).filter(([word]) => word !== "-")),
);

export const MONTHS: ReadonlyMap<string, number> = new Map(
  [
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février febrero febbraio fevereiro februari",
    "march mar märz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember décembre diciembre dicembre dezembro",
  ].flatMap((words, i) => words.split(" ").map((word): [string, number] => [word, i + 1])),
);

/** Months that are common words too: they count as months only beside a number. */
export const AMBIGUOUS_MONTHS: ReadonlySet<string> = new Set("may march mar mars mai mei jan sep dec nov".split(" "));

export const WEEKDAYS: ReadonlyMap<string, string> = table(`
monday montag lundi lunes lunedì maandag
tuesday dienstag mardi martes martedì dinsdag
wednesday mittwoch mercredi miércoles mercoledì woensdag
thursday donnerstag jeudi jueves giovedì donderdag
friday freitag vendredi viernes venerdì vrijdag
saturday samstag samedi sábado sabato zaterdag
sunday sonntag dimanche domingo domenica zondag
`);

/** Units after a number. */
export const UNITS: ReadonlyMap<string, string> = table(`
% percent pct prozent procent
‰
$ dollar dollars usd bucks
€ euro euros eur
£ gbp quid
¥ yen jpy
₹ rupee rupees inr
° degree degrees
°c celsius c
°f fahrenheit f
mm millimeter millimeters millimetre millimetres
cm centimeter centimeters centimetre centimetres
m meter meters metre metres
km kilometer kilometers kilometre kilometres kms
in inch inches
ft foot feet
yd yard yards
mi mile miles
mg milligram milligrams
g gram grams
kg kilogram kilograms kilo kilos kgs
t tonne tonnes
lb lbs
oz ounce ounces
ml milliliter milliliters millilitre millilitres
l liter liters litre litres
gal gallon gallons
cup cups
tsp teaspoon teaspoons
tbsp tablespoon tablespoons
ns nanosecond nanoseconds
ms millisecond milliseconds
s sec secs second seconds
min mins minute minutes
h hr hrs hour hours
day days
week weeks
month months
year years yr yrs
decade decades
century centuries
b byte bytes
kb kilobyte kilobytes
mb megabyte megabytes
gb gigabyte gigabytes
tb terabyte terabytes
kib
mib
gib
hz hertz
khz
mhz
ghz
w watt watts
kw kilowatt kilowatts
kwh
v volt volts
a amp amps
mph
km/h kph
`);

/** Letters that multiply the number they follow without a space. */
export const SUFFIX_SCALES: ReadonlyMap<string, number> = new Map([
  ["k", 1e3],
  ["mn", 1e6],
  ["mio", 1e6],
  ["bn", 1e9],
]);
