export const items = [];

export function total(list) {
  return list.reduce((sum, item) => sum + item.price, 0);
}
