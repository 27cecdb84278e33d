import { total, euros } from "./lib.js";

const products = await (await fetch("api/products")).json();
const cart = { items: [] };

function show() {
  document.querySelector("#cart").textContent = `${cart.items.length} items, ${euros(total(cart.items))}`;
  document.querySelector("#pay").disabled = cart.items.length === 0;
}

function add(product) {
  cart.items.push(product);
  show();
}

for (const product of products) {
  const item = document.createElement("li");
  const title = document.createElement("h3");
  const text = document.createElement("p");
  const price = document.createElement("span");
  const button = document.createElement("button");
  title.textContent = product.name;
  text.textContent = product.text;
  price.textContent = euros(product.price);
  button.textContent = `Add ${product.name}`;
  button.addEventListener("click", () => add(product));
  item.append(title, text, price, button);
  document.querySelector("#products").append(item);
}
console.log("products", products.length);

const saved = await fetch("api/cart?currency=EUR");
if (!saved.ok) throw new Error(`the cart was not loaded: ${saved.status}`);
cart.items = (await saved.json()).items;
show();
