/** The entry of the app in the browser. */
import { render } from "preact";
import { Shell } from "./shell.js";
import "./style.css";

render(<Shell />, document.querySelector("#app")!);
