/**
 * The answer begins by declining: its writer cannot or may not. Seven languages are known; a refusal in other words is
 * missed.
 */
import { isRefusal } from "../../cascade/features.js";
import { type Check, yesOrNo } from "./check.js";

/** Text between two words of a clause. */
const CLAUSE = "[^.!?,;:\\n]{0,60}?";

/** An opening is an apology or regret, which alone is not a refusal. `isRefusal` knows more of English. */
const LANGUAGES: readonly { readonly opening: string; readonly inability: string }[] = [
  {
    opening: "i apologi[sz]e|my apologies|i regret",
    inability:
      "i (?:can(?:no|['’])t|cannot|must decline|do not feel comfortable)|(?:i['’]m|i am|being|be) (?:unable|not able)",
  },
  {
    opening: "(?:es )?tut mir (?:sehr )?leid|leider|entschuldigung|ich bedaure",
    inability: `(?:ich (?:kann|darf)|(?:(?:das|dabei|dazu|diese \\p{L}{1,20}) )?(?:kann|darf) ich)${CLAUSE} (?:nicht|keinen?)(?! nur| genug)|ich${CLAUSE} nicht${CLAUSE} (?:kann|darf|in der lage)|mir${CLAUSE} nicht (?:möglich|erlaubt)`,
  },
  {
    opening: "(?:je suis )?(?:vraiment )?désolée?|malheureusement|je regrette",
    inability:
      "je ne (?:peux|puis|pourrai|saurais)(?! qu)|je ne suis pas (?:en mesure|capable|autorisée?)|je n['’]ai pas (?:accès|le droit)|ne pas pouvoir|il m['’]est impossible",
  },
  {
    opening: "lo siento|lamentablemente|lamento|desafortunadamente",
    inability:
      "no (?:puedo|podré|poder|me es posible|soy capaz|se me permite|estoy autorizad[oa]|tengo (?:acceso|permiso))",
  },
  {
    opening: "mi dispiace|purtroppo|sono spiacente",
    inability:
      "non (?:posso|potrò|poter|mi è (?:possibile|permesso|consentito)|sono (?:in grado|autorizzat[oa])|ho accesso)",
  },
  {
    opening: "sinto muito|desculpe|lamento|infelizmente",
    inability:
      "não (?:posso|poderei|poder|consigo|me é (?:possível|permitido)|sou capaz|estou autorizad[oa]|tenho (?:acesso|permissão))",
  },
  {
    opening: "het spijt me|sorry|helaas",
    inability: `(?:ik (?:kan|mag)|(?:(?:dat|daar|hier) )?(?:kan|mag) ik)${CLAUSE} (?:niet|geen)(?! alleen| genoeg)|ik${CLAUSE} niet${CLAUSE} (?:kan|mag|in staat)`,
  },
];

/** The first sentence states that the writer cannot or may not, or the second does after a mere apology. */
const DECLINES = LANGUAGES.map(
  ({ opening, inability }) =>
    new RegExp(
      `^[^\\p{L}]{0,8}(?:(?:${opening})(?!\\p{L})[.!]?[^.!?\\n]{0,80}?(?<!\\p{L}))?(?:${inability})(?!\\p{L})`,
      "iu",
    ),
);

export const refusal: Check = ({ answer: { text, end } }) => {
  if (end === "refusal") return yesOrNo(true, "withheld by the model or its provider");
  const start = text.slice(0, 400);
  return yesOrNo(isRefusal(start) || DECLINES.some((pattern) => pattern.test(start)), "begins by declining");
};
