// The cart of this load: every importer gets the same object.
export const cart = {
  pieces: { apple: 2, pear: 1 },
  prices: {},
  total() {
    let sum = 0;
    for (const [name, pieces] of Object.entries(this.pieces)) sum += pieces * this.prices[name];
    return sum;
  },
};
