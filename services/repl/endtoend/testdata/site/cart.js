// The page of the examples in docs/live-pages.md.
import { items, total } from "./items.js";

document.querySelector("button").addEventListener("click", () => {
  items.push({ name: "plums", price: 299 });
  console.log("added", items.length);
  document.querySelector("output").textContent = (total(items) / 100).toFixed(2);
});
