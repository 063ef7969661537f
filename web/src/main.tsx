import { render } from "preact";
import "./style/base.css";
import "./style/frame.css";
import "./style/provider.css";
import "./style/charts.css";
import "./style/lists.css";
import { start } from "./state";
import { App } from "./view/app";

start();
const place = document.getElementById("page");
if (place !== null) render(<App />, place);
