// cart.js: the shopping cart of the web shop. All amounts are integers in cents.

const STORAGE_KEY = "cart.v2";
const QUANTITY_MAX = 99;
const FREE_SHIPPING_FROM = 7500;
const SHIPPING = { BE: 495, NL: 495, DE: 750, FR: 750, LU: 750 };

export class CartError extends Error {
  constructor(code, detail) {
    super(`${code}: ${detail}`);
    this.code = code;
  }
}

export class Cart {
  #lines = new Map(); // article number -> { article, title, price, quantity }
  #listeners = new Set();

  static load(storage = localStorage) {
    const cart = new Cart();
    const text = storage.getItem(STORAGE_KEY);
    if (text === null) return cart;
    try {
      for (const line of JSON.parse(text)) cart.add(line, line.quantity);
    } catch (error) {
      console.warn("stored cart was dropped", error);
      storage.removeItem(STORAGE_KEY);
      return new Cart();
    }
    return cart;
  }

  save(storage = localStorage) {
    storage.setItem(STORAGE_KEY, JSON.stringify(this.lines()));
  }

  lines() {
    return [...this.#lines.values()].map((line) => ({ ...line }));
  }

  add({ article, title, price }, quantity = 1) {
    if (!Number.isInteger(price) || price < 0) {
      throw new CartError("bad_price", `${article} costs ${price}`);
    }
    const line = this.#lines.get(article) ?? { article, title, price, quantity: 0 };
    this.#setQuantity(line, line.quantity + quantity);
  }

  change(article, quantity) {
    const line = this.#lines.get(article);
    if (line === undefined) throw new CartError("not_in_cart", article);
    this.#setQuantity(line, quantity);
  }

  remove(article) {
    if (this.#lines.delete(article)) this.#notify();
  }

  #setQuantity(line, quantity) {
    if (!Number.isInteger(quantity) || quantity < 1) {
      throw new CartError("bad_quantity", String(quantity));
    }
    this.#lines.set(line.article, { ...line, quantity: Math.min(quantity, QUANTITY_MAX) });
    this.#notify();
  }

  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #notify() {
    for (const listener of this.#listeners) listener(this);
  }

  get count() {
    return this.lines().reduce((sum, line) => sum + line.quantity, 0);
  }

  get subtotal() {
    return this.lines().reduce((sum, line) => sum + line.price * line.quantity, 0);
  }

  // Vouchers: { code: "SPRING10", percent: 10 } or { code: "THANKS5", cents: 500 }.
  // Only one voucher counts; it never makes the subtotal negative.
  discount(voucher) {
    if (!voucher) return 0;
    const cents = voucher.percent
      ? Math.round((this.subtotal * voucher.percent) / 100)
      : voucher.cents;
    return Math.min(cents, this.subtotal);
  }

  // The costs of shipping to a country, after the discount: 0 for an empty cart and
  // from FREE_SHIPPING_FROM on for BE and NL only. Throws CartError("no_delivery")
  // for a country that is not in SHIPPING.
  shipping(country, voucher) {
