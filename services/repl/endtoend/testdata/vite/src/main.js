import { cart } from "./cart.js";
import { render } from "./view.js";

async function start() {
  const response = await fetch("/prices.json");
  if (!response.headers.get("content-type").includes("json")) throw new Error("no prices at " + response.url);
  cart.prices = await response.json();
  render(document.querySelector("main"), cart);
  console.info("shop is ready");
}
start();

if (import.meta.hot) {
  import.meta.hot.accept("./view.js", (view) => {
    view.render(document.querySelector("main"), cart);
    console.info("view was updated");
  });
}
