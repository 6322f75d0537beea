/**
 * Names of people, places, firms and things: long lists, and syllables for names that are in no list and so must be
 * copied.
 */
import type { Random } from "./random.js";

const split = (text: string): readonly string[] => text.trim().split(/\s+/);
const splitCommas = (text: string): readonly string[] => text.trim().replace(/\s+/g, " ").split(", ");

export const names = split(`
Aaron Abel Ada Adam Adele Agnes Ahmed Aisha Akira Alan Alba Albert Alexa Alice Alma Alva Amara Amber Amir Amy Ana Anders Andrei
Andrew Angela Anita Anna Anton April Arjun Arlo Arthur Asha Astrid Aurora Ava Axel Aylin Barbara Basil Bea Beatrice Bela Bella Ben
Benita Bernard Bianca Boris Brenda Bruno Caleb Camille Carla Carlos Carmen Caspar Cecil Celia Chen Chloe Clara Claude Colin Conrad
Cora Cyril Dagmar Daisy Daniel Dara Daria David Delia Dennis Diana Diego Dina Dinesh Dominic Dora Doris Duncan Edgar Edith Edmund
Eileen Elena Eli Elias Elif Elisa Ella Elsa Elton Emil Emma Enid Enzo Erik Erin Esme Esther Ethan Eva Evan Fabian Farah Farid Fatima
Felix Fergus Finn Fiona Flora Frank Frida Freya Gabriel Gemma George Georgia Gerda Gideon Gina Giulia Glenn Gloria Goran Grace Greta
Gustav Guy Hakim Hana Hanif Hannah Harold Harriet Harry Hassan Hazel Hector Heidi Helen Helga Henry Hilda Hiro Hugo Ian Ida Ignaz Igor
Imani Imran Inga Ines Ingrid Irene Iris Isaac Isabel Ivan Ivy Jack Jacob Jakob James Jamal Jana Jane Janet Jasmin Jasper Jens Jesse
Joan Joel Johan Jonas Jorge Josef Josh Joy Juan Jude Judith Julia Julian June Kai Karen Karim Karin Karl Kasia Kate Keiko Keith Kenji
Kerstin Kevin Kira Klara Klaus Kofi Konrad Lara Laila Lars Laszlo Laura Lea Leander Leila Lena Leo Leon Leonie Levi Liam Lidia Lily
Lina Linus Lisa Lloyd Lola Lorenz Lotte Louis Lucas Lucia Lucy Luis Luka Luna Lydia Mabel Mads Magda Magnus Maja Malik Manuel Mara
Marcel Marco Maria Marie Marina Mario Mark Marta Martin Matilda Mateo Max Maya Megan Mei Melina Mia Micha Miguel Mila Milena Miles
Milo Mina Mira Miriam Mohan Molly Mona Moritz Morgan Nadia Nadine Nadir Naomi Nasim Natalie Nathan Neil Nell Nelly Nestor Niall Nils
Nina Nino Noah Noel Nora Norman Odile Olaf Olga Olive Oliver Omar Ophelia Orla Oscar Osman Otis Otto Owen Pablo Paloma Patrick Paul
Paula Pavel Pedro Penny Percy Petra Phoebe Pia Pierre Piotr Polly Priya Quentin Rafael Rahul Ralph Ramona Rania Raul Ravi Rebecca
Reka Renate Rhea Richard Rita Robert Robin Roland Roman Rosa Rosalind Ross Rowan Ruben Rufus Ruth Ryan Sabine Sakura Sally Salma Sam
Samir Sandra Sanjay Sara Sasha Saskia Sean Selim Selma Sergei Seth Sheila Sidney Sigrid Silas Silvia Simon Sofia Sonia Sophie Stefan
Stella Sunil Susan Sven Sylvie Talia Tamar Tara Tariq Tess Theo Theresa Thomas Tilda Tim Tina Tobias Tom Tomas Tony Tove Tristan Ulla
Uma Ursula Valentin Vera Verena Victor Vikram Viola Viktor Wade Walter Wanda Wendy Werner Wilma Will Willa Winnie Xavier Xenia Yannick
Yara Yasmin Yves Yuki Yusuf Zara Zelda Zeno Zoe Zora Anaïs Björn Chloé Jörg José Léa Máté Noémi Renée Søren Zoë`);

const surnames = split(`
Abbott Adler Ahlberg Alvarez Amado Andersen Arnold Aziz Baker Banerjee Barlow Bauer Becker Bell Benson Berg Bianchi Bishop Blake Bloom
Bond Boyd Brandt Brennan Brooks Bruun Burke Byrne Caine Calder Carlson Carter Castro Chandra Cohen Collins Costa Crane Cruz Curtis Dahl
Dalton Daniels Davies Deleon Dixon Drake Dubois Duran Eklund Ellis Evans Farkas Fenn Ferrari Fischer Fletcher Flores Forbes Foster
Fraser Frost Fuchs Garcia Gibson Grant Graves Green Grimm Gruber Haas Haddad Hale Hansen Hardy Harper Hart Hayes Heller Hill Hoffman
Holm Horvat Hughes Hunt Ibsen Ito Jansen Jensen Joshi Kaplan Keller Kelly Kent Khan Kim Klein Knight Koch Kovacs Kramer Krause Kumar
Lambert Lane Lang Larsen Laurent Leblanc Lehmann Levin Lind Lopez Lowe Lund Madsen Maier Marsh Marino Mason Mehta Mendes Meyer Mills
Moreau Morris Moss Murphy Nagy Nakamura Nash Neumann Nielsen Nolan Novak Nowak Nunes Oakley Okafor Olsen Onwudiwe Orlov Ortega Osman
Owens Page Palmer Park Parker Patel Pavlov Payne Pereira Perry Peters Petrov Porter Powell Price Quinn Rahman Ramos Rao Reed Reyes
Rhodes Richter Rivera Robbins Rossi Roth Rowe Ruiz Ryder Sanders Santos Sato Sauer Schmidt Sharma Shaw Silva Singh Skov Sloan Sousa
Spencer Stark Stein Stone Suarez Sutton Suzuki Tanaka Tate Taylor Thorne Torres Tucker Turner Underwood Vance Vargas Varga Vogel Voss
Wagner Walker Wallace Walsh Ward Watanabe Weber Webb Weiss Wells West Wilde Winter Wolf Wood Wright Yates Yilmaz York Young Zhang
Ziegler Zimmer Müller Núñez Bjørk Lefèvre Søgaard`);

export const cities = splitCommas(`
Aarhus, Accra, Amsterdam, Antwerp, Athens, Auckland, Austin, Basel, Bergen, Berlin, Bern, Bilbao, Bologna, Bordeaux, Boston, Bremen,
Brighton, Bristol, Brno, Bruges, Brussels, Bucharest, Budapest, Cairo, Calgary, Cardiff, Chicago, Cologne, Cork, Cusco, Dakar, Dallas,
Delft, Delhi, Denver, Derby, Dover, Dresden, Dublin, Dundee, Edmonton, Essen, Exeter, Fez, Florence, Galway, Gdansk, Geneva, Genoa, Ghent,
Glasgow, Granada, Graz, Haifa, Hamburg, Hanoi, Havana, Helsinki, Hobart, Houston, Innsbruck, Istanbul, Izmir, Jakarta, Kampala, Kiel,
Krakow, Kyoto, La Paz, Lagos, Leeds, Leiden, Leipzig, Lima, Limerick, Linz, Lisbon, Liverpool, London, Lucerne, Lund, Lyon, Madrid,
Mainz, Malaga, Malmo, Manila, Marseille, Melbourne, Milan, Mombasa, Montreal, Mumbai, Munich, Nairobi, Nantes, Naples, New York, Nice,
Norwich, Odense, Oporto, Osaka, Oslo, Ottawa, Oxford, Palermo, Paris, Perth, Pisa, Porto, Prague, Quebec, Quito, Riga, Rome, Rotterdam,
Salzburg, San Diego, Santiago, Seattle, Seoul, Seville, Sofia, Split, Stockholm, Sydney, Tallinn, Tampere, Tokyo, Toronto, Trieste,
Tromso, Tunis, Turin, Turku, Uppsala, Utrecht, Valencia, Vancouver, Venice, Verona, Vienna, Vilnius, Warsaw, Weimar, Windsor, York,
Zagreb, Zurich, São Paulo, Malmö, Zürich, Córdoba`);

const starts = split(`
ba be bel bor bra bre da dar de del do dra du el fa fal fen fi fo gal gar ge go gra ha hal he hor jo ka kal kar ke ki ko kor la lan le
lin lo lor lu ma mar me mi mo mor na nel ni no nor o or pa pel per pi po ra re rin ro ru sa sal se sel so sta su ta tal te ti tor tu u
va val ve vel vi vo wa wen wil ya za ze zi zo`);
const middles = split(`
ba be da de di do fa fi ga gi ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa se so ta te ti to va ve vi vo za`);
const ends = split(`
ba bel bo da den dis do fa gan go ka kel ko la len lin lo ma men mi mo na nel nis no ra ren ri ro ros sa sen so ta tan ten ti to tor va
vel vi vo zo`);
const townEnds = split("burg by dale field ford ham haven holm mouth port stad ton wick wood bridge brook mere stow");

/** A name from no list, so that copying it is the only way to answer with it. */
export function inventName(random: Random): string {
  const middle = random.isChance(0.35) ? random.pick(middles) : "";
  const name = random.pick(starts) + middle + random.pick(ends);
  return name.charAt(0).toUpperCase() + name.slice(1);
}

export function firstName(random: Random): string {
  return random.isChance(0.12) ? inventName(random) : random.pick(names);
}

/** `numNames` first names that differ. */
export function firstNames(random: Random, numNames: number): string[] {
  const found = new Set<string>();
  while (found.size < numNames) found.add(firstName(random));
  return [...found];
}

export function fullName(random: Random): string {
  const surname = random.isChance(0.15) ? inventName(random) : random.pick(surnames);
  return `${firstName(random)} ${surname}`;
}

export function town(random: Random): string {
  if (random.isChance(0.65)) return random.pick(cities);
  return random.isChance(0.5) ? inventName(random) : inventName(random) + random.pick(townEnds);
}

const firmKinds = splitCommas(`
Bakery, Books, Brewery, Cafe, Cycles, Design, Energy, Farms, Foods, Freight, Furniture, Garden Centre, Glass, Hotel, Instruments, Labs,
Logistics, Media, Motors, Optics, Paper, Pharmacy, Press, Robotics, Software, Solar, Studio, Supplies, Systems, Textiles, Tools, Toys,
Trading, Travel, Works, Outdoor, Music, Shipping, Clinic, Dairy`);
const firmWords = splitCommas(`
Amber, Anchor, Arrow, Aspen, Beacon, Birch, Blue Door, Bright, Cedar, Clover, Copper, Coral, Crescent, Delta, Eagle, Ember, Falcon, Fern,
Four Winds, Golden Gate, Granite, Green Hill, Harbour, Hazel, Horizon, Iron Bridge, Ivory, Jade, Juniper, Lantern, Lighthouse, Lunar,
Maple, Meridian, Mill Lane, Mistral, Moonrise, North Star, Oak Tree, Old Town, Orchard, Osprey, Pebble, Pioneer, Quarry, Red Kite,
River Side, Sapphire, Silver, Sparrow, Spruce, Stone Arch, Summit, Sunrise, Thistle, Tidal, Tulip, Union, Velvet, Violet, West Wind,
Willow, Zenith`);

export function firm(random: Random): string {
  const first = random.weighted([
    [5, random.pick(firmWords)],
    [3, random.pick(surnames)],
    [2, inventName(random)],
  ]);
  return `${first} ${random.pick(firmKinds)}`;
}

const streetWords = splitCommas(`
Abbey, Acorn, Ash, Bank, Bell, Bridge, Brook, Canal, Castle, Cherry, Church, Corn, Dock, Elm, Fern, Field, Ferry, Forest, Fox, Garden,
George, Grove, Harbour, High, Hill, Holly, King, Lake, Lark, Lime, Long, Market, Meadow, Mill, Moor, North, Oak, Orchard, Park, Pine,
Pond, Poplar, Queen, River, Rose, School, South, Spring, Station, Stone, Tower, Vine, Water, Well, West, Willow, Windmill`);
const streetKinds = split("Street Road Lane Avenue Way Square Close Row Court Drive");

export function street(random: Random): string {
  return `${random.pick(streetWords)} ${random.pick(streetKinds)}`;
}

export function address(random: Random): string {
  return `${random.int(1, 240)} ${street(random)}`;
}
