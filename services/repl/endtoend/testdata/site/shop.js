// A shop with a bug that the agent finds.
const basket = [
  { fruit: "apples", pieces: 2, price: 2 },
  { fruit: "pears", pieces: 1, price: 3 },
  { fruit: "plums", pieces: 2, price: 3 },
];

function total(items) {
  let sum = 0;
  for (let i = 0; i <= items.length; i++) sum += items[i].pieces * items[i].price;
  return sum;
}

function show() {
  for (const { fruit, pieces, price } of basket) {
    document.querySelector("tbody").insertRow().append(...[fruit, pieces, price].map(text => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
  }
  document.querySelector("output").textContent = total(basket).toFixed(2);
}

show();
