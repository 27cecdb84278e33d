export function total(items) {
  return items.reduce((sum, item) => sum + item.price, 0);
}

export function euros(cents) {
  return `${(cents / 100).toFixed(2)} EUR`;
}
