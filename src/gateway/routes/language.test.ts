import fc from "fast-check";
import { expect, test } from "vitest";
import { languageOf, scriptOf } from "./language.js";

test.each([
  ["en", "What is the weather like in the mountains, and how do you dress for it?"],
  ["de", "Wie ist das Wetter in den Bergen, und was zieht man für eine Wanderung an?"],
  ["fr", "Quel temps fait-il dans les montagnes, et comment est-ce que l'on s'habille pour une randonnée ?"],
  ["es", "¿Qué tiempo hace en las montañas y cómo se viste uno para una caminata?"],
  ["it", "Com'è il tempo in montagna e come ci si veste per una escursione che non sia troppo lunga?"],
  ["pt", "Como é o tempo nas montanhas e o que você veste para uma caminhada mais longa?"],
  ["nl", "Hoe is het weer in de bergen en wat trek je aan voor een wandeling die niet te lang is?"],
  ["ru", "Какая погода в горах?"],
  ["zh", "山里的天气怎么样？"],
  ["ja", "山の天気はどうですか？"],
  ["ko", "산의 날씨는 어때요?"],
  ["ar", "كيف الطقس في الجبال؟"],
  ["el", "Πώς είναι ο καιρός στα βουνά;"],
])("tells %s", (language, text) => {
  expect(languageOf(text)).toBe(language);
});

test.each(["", "1 + 1 = ?", "Xyzzy plugh", "{}"])("says nothing about %j", (text) => {
  expect(languageOf(text)).toBeUndefined();
});

test("any text has a script or none", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      expect(["string", "undefined"]).toContain(typeof scriptOf(text));
      expect(["string", "undefined"]).toContain(typeof languageOf(text));
    }),
  );
});
