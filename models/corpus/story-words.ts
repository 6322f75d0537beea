/** The words that stories are told with, by what they name. */
const words = (text: string): readonly string[] => text.trim().replace(/\s+/g, " ").split(", ");

export const girls =
  words(`Ada, Agnes, Alice, Alma, Amy, Anna, Astrid, Aurora, Bea, Bella, Bianca, Cora, Clara, Dagmar, Daisy, Dora, Edith,
Elena, Ella, Elsa, Emma, Enid, Esme, Eva, Farah, Fiona, Flora, Freya, Frida, Gemma, Gina, Grace, Greta, Hana, Hannah, Hazel, Heidi, Helga,
Hilda, Ida, Ines, Ingrid, Iris, Ivy, Jane, Jasmin, Julia, June, Kira, Klara, Laila, Lara, Laura, Lea, Leila, Lena, Lily, Lina, Lola, Lotte,
Lucy, Luna, Mabel, Magda, Maja, Mara, Marta, Matilda, Maya, Mila, Mina, Mira, Molly, Mona, Nadia, Nell, Nina, Nora, Olga, Olive, Orla, Paula,
Penny, Petra, Pia, Polly, Priya, Rhea, Rita, Rosa, Ruth, Sally, Salma, Sara, Selma, Sigrid, Sofia, Stella, Talia, Tara, Tess, Tilda, Tina,
Ulla, Uma, Vera, Viola, Wanda, Willa, Yara, Zara, Zelda, Zoe, Chloé, Renée`);

export const boys =
  words(`Aaron, Abel, Adam, Akira, Albert, Anton, Arjun, Arlo, Arthur, Axel, Basil, Ben, Boris, Bruno, Caleb, Caspar, Cecil,
Conrad, Cyril, Daniel, Diego, Edgar, Edmund, Eli, Elias, Emil, Enzo, Erik, Fabian, Farid, Felix, Fergus, Finn, Frank, Gideon, Gustav, Hakim,
Harold, Harry, Hassan, Hector, Henry, Hiro, Hugo, Ian, Igor, Imran, Isaac, Ivan, Jack, Jakob, Jasper, Joel, Jonas, Jude, Kai, Karim, Karl,
Kenji, Klaus, Kofi, Lars, Leo, Levi, Linus, Louis, Lucas, Luka, Magnus, Malik, Marco, Martin, Mateo, Max, Miguel, Milo, Mohan, Moritz, Nathan,
Nils, Noah, Oliver, Omar, Oscar, Otto, Owen, Pablo, Paul, Pavel, Percy, Rafael, Ravi, Rufus, Ryan, Samir, Silas, Simon, Stefan, Sven, Theo,
Thomas, Tim, Tobias, Tomas, Tristan, Victor, Vikram, Walter, Yannick, Yusuf, Zeno, Björn, Søren`);

export const heroAnimals =
  words(`fox, hedgehog, rabbit, mouse, squirrel, badger, bear, wolf, otter, owl, crow, sparrow, goose, duck, hen, frog,
turtle, donkey, pony, goat, lamb, cat, dog, pig, calf, deer, beaver, mole, raccoon, penguin, seal, whale, dolphin, crab, snail, bee, beetle,
butterfly, parrot, swan, stork, heron, lizard, camel, elephant, lion, tiger, monkey, panda, weasel, robin, magpie, hamster, kitten, puppy`);

export const heroJobs =
  words(`baker, miller, tailor, shepherd, gardener, fisherman, weaver, potter, sailor, cook, clockmaker, painter, carpenter,
blacksmith, beekeeper, librarian, teacher, doctor, farmer, musician, lighthouse keeper, postman, shoemaker, glassblower, cobbler, juggler,
candle maker, bell ringer, basket maker, ferryman, stargazer, map maker, puppet maker, chimney sweep, night guard, goldsmith`);

export const traits =
  words(`brave, curious, clever, quiet, gentle, stubborn, cheerful, clumsy, patient, shy, proud, lazy, kind, careful, lonely,
honest, playful, dreamy, nervous, grumpy, hopeful, restless, generous, polite, cautious, daring, forgetful, thoughtful, humble, bold, witty,
sleepy, tidy, messy, modest, loyal, jolly, serious, timid, eager`);

export const places =
  words(`a small village by the sea, a valley between two hills, the edge of a pine forest, a crooked house on a hill, an old
windmill, a town with narrow streets, a cottage near a lake, a farm at the end of the road, a quiet harbour, a hollow oak, a cave behind a
waterfall, a lighthouse on a rock, a market square full of pigeons, a castle with a leaking roof, a meadow full of clover, a barn with a red
door, an island with one tree, a street of bakers, a tower without stairs, a boat on the river, a garden behind a wall, a hut in the snow, a
mountain pass, a desert camp, a wooden bridge, a marsh full of reeds, a railway station, an orchard of plum trees, a library with dusty shelves,
a ship at anchor, a mill by the stream, a village of weavers, a clearing among birches, a bay of white sand, a school with one room`);

/** Times and skies that go together. */
export const scenes: readonly { readonly times: readonly string[]; readonly skies: readonly string[] }[] = [
  {
    times:
      words(`one spring morning, at the end of summer, on a warm night in July, on the longest day of the year, one mild evening in May, on a hot
afternoon`),
    skies:
      words(`the air smelled of hay, swallows flew in wide circles, the grass was wet with dew, crickets sang in the grass, a warm wind came from the
south, the sky was clear and blue, bees hummed in the clover, the lake was smooth as glass`),
  },
  {
    times: words(
      `one snowy morning, in the middle of winter, one cold evening, on the first day of the year, one icy night, late in December`,
    ),
    skies:
      words(`snow covered every path, frost shone on the windows, smoke rose from the chimneys, the moon was thin as a thread, the pond was frozen
hard, the wind whistled through the keyhole, icicles hung from the roofs`),
  },
  {
    times: words(
      `on the first day of autumn, one windy night, one foggy dawn, on a rainy afternoon, one stormy evening, when the leaves began to fall`,
    ),
    skies:
      words(`clouds hung low over the roofs, a soft rain fell, mist lay on the fields, thunder rolled far away, leaves danced across the road, crows sat
on the bare trees, puddles shone in the street`),
  },
  {
    times: words(
      `early one day, on market day, one quiet Sunday, one bright morning, just before sunset, at noon, one ordinary Tuesday`,
    ),
    skies:
      words(`the sky was clear and pale, the sun stood high, the first stars were far away, bells rang in the distance, a rainbow stood over the hill, the
streets were full of people, dogs barked somewhere`),
  },
];

export const treasures =
  words(`silver key, golden ring, old map, wooden flute, red scarf, brass compass, blue lantern, pocket watch, glass marble,
velvet hat, clay whistle, music box, copper bell, painted egg, leather book, paper kite, woollen blanket, tin soldier, pearl button, carved
spoon, feather pen, striped umbrella, crystal ball, ivory comb, iron horseshoe, amber necklace, rope ladder, little drum, round mirror, stone
owl, cloth doll, silk ribbon, bronze coin, tea pot, magic bean, snow globe, wicker basket, walking stick, straw hat, green bottle`);

export const spots =
  words(`under a pile of leaves, behind the well, inside a hollow log, at the bottom of a basket, on top of the haystack, between two
stones, in a magpie's nest, beneath the old bridge, in the miller's sack, beside the pond, under the church bench, in the pocket of a coat, at
the foot of the tower, among the pumpkins, behind the stove, in an empty barrel, on a window sill, below the apple tree, in the boat, under
the garden gate, in the long grass, inside a teapot, on the third stair, near the beehives`);

export const skills =
  words(`swim, whistle, dance, read, ride a bicycle, fly a kite, bake bread, play the violin, climb trees, skate on ice, paint
pictures, tell stories, row a boat, juggle, knit, sing in tune, tie knots, find mushrooms, play chess, walk on stilts, blow glass, carve wood,
read maps, cook soup, ring the bells, throw pots, catch fish, write poems, count the stars, sew a sail`);

export const dishes =
  words(`apple pie, onion soup, honey cake, plum jam, pumpkin stew, cheese bread, nut biscuits, pear tart, bean soup, carrot cake,
barley soup, blueberry pancakes, cherry pudding, leek pie, lemon cake, mushroom stew, oat biscuits, potato dumplings, raspberry jam, walnut
bread, cinnamon rolls, chestnut cream, fig tart, pea soup`);

export const ingredients =
  words(`flour, honey, butter, salt, cinnamon, eggs, milk, sugar, yeast, pepper, cream, nuts, thyme, vanilla, oil, ginger,
raisins, mint, parsley, garlic, almonds, nutmeg`);

export const broken =
  words(`clock of the town hall, mill wheel, garden gate, old bridge, church bell, water pump, village oven, lighthouse lamp, school
stove, ferry rope, weather vane, roof of the barn, wagon wheel, puppet stage, boat's mast, fountain, merry-go-round, stone wall, rope bridge, well
handle`);

export const tools =
  words(`a hammer and nails, a long rope, a pot of glue, a saw, a bucket of tar, a needle and thread, a wooden wedge, an iron hook, a ladder,
a box of screws, a piece of wire, a roll of cloth, a chisel, a plank, a pair of pliers, a brush and paint, a bag of sand, two strong poles`);

export const dangers =
  words(`a dark forest, a roaring river, a steep cliff, a deep marsh, a narrow ledge, a field of thorns, a frozen lake, a cave full of
bats, a sandy plain without water, a rickety bridge, a valley of fog, a road full of robbers' tales, a wall of snow, a maze of hedges, a hill of loose
stones, a gate guarded by geese`);

export const noises =
  words(`a strange knocking, a soft humming, a long howl, a scratching sound, a low rumble, a tiny voice, a clatter of pots, a flapping
noise, a slow dripping, a sad melody, footsteps, a whisper, a squeak, a rattle of chains, a ticking, a splash`);

export const harmless =
  words(`a kitten caught in a net, an owl learning to sing, a loose shutter, a hedgehog in a flower pot, a clock nobody had wound, a
lost lamb, the wind in an empty bottle, a family of mice moving house, a neighbour practising the trombone, a kettle left on the fire, a goose with a
tin on its foot, rain in a copper bowl, a baby bat, an old weather vane, a beetle in a drum, a squirrel cracking nuts`);

export const contests =
  words(`boat race, baking contest, kite festival, singing contest, sack race, snail race, pumpkin show, chess match, rowing race,
dancing contest, story evening, sand castle contest, pie contest, running race, fishing contest, archery day, spelling contest, ski race`);

export const feelings =
  words(`happy, proud, sad, tired, afraid, hopeful, relieved, surprised, grateful, worried, excited, calm, ashamed, curious, cold, hungry,
puzzled, brave, lonely, delighted`);

export const morals =
  words(`a friend is worth more than a treasure, it is never too late to learn, small steps lead far, help comes to those who ask for
it, even the smallest can do great things, patience is stronger than haste, sharing makes a meal taste better, courage is going on although one is
afraid, kindness always finds its way back, listening is half of wisdom, nobody has to be perfect, a good plan saves many steps, home is where
someone waits for you, things look smaller in the daylight, a promise is a promise, together the heaviest load is light`);

export const speeches = words("said, said, said, answered, whispered, called, laughed, murmured, replied, cried");

export const speeds = words(
  "slowly, quickly, quietly, carefully, bravely, happily, patiently, gladly, at once, without a word, as fast as possible, step by step",
);

export const presents =
  words(`a warm scarf, a basket of pears, a jar of honey, a loaf of fresh bread, a bunch of tulips, a bag of chestnuts, a cup of hot
cocoa, a pair of mittens, a story by the fire, a song, a round of cheese, a pot of basil, a wooden boat, a drawing, a handful of cherries, a place by the
stove, a slice of cake, a bundle of lavender, a clay mug, a lucky stone`);

export const comforts =
  words(`tea and biscuits, a big bowl of soup, music and dancing, a feast under the lanterns, a long talk by the fire, warm milk and stories,
games until midnight, pancakes for everyone, a picnic on the grass, a walk along the shore, songs around the table, a swim in the lake`);
