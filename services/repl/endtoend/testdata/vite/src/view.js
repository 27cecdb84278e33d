export function render(root, cart) {
  root.innerHTML = `<button>Add an apple</button> <output></output>`;
  const output = root.querySelector("output");
  const show = () => (output.textContent = "Total " + cart.total().toFixed(2));
  root.querySelector("button").addEventListener("click", () => {
    cart.pieces.apple++;
    show();
  });
  show();
}
