/** The examples of the documentation, one part of them. */
import { testExamples } from "../../helpers/page-examples.js";

testExamples(import.meta.url);
