"""Stock of a small bicycle workshop, kept in a SQLite database.

Every change is a row in `movements`, so the stock of a part is the sum of its
movements and can be explained later. Quantities are whole pieces; prices are
in pence and exclude VAT.
"""

import sqlite3
from datetime import date

SCHEMA = """
CREATE TABLE IF NOT EXISTS parts (
    sku TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    price INTEGER NOT NULL CHECK (price >= 0),
    reorder_at INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS movements (
    id INTEGER PRIMARY KEY,
    sku TEXT NOT NULL REFERENCES parts (sku),
    day TEXT NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity != 0),
    reason TEXT NOT NULL
);
"""


class StockError(Exception):
    pass


class UnknownPart(StockError):
    def __init__(self, sku):
        super().__init__(f"no part with the number {sku}")


class NotEnough(StockError):
    def __init__(self, sku, wanted, there):
        super().__init__(f"{wanted} of {sku} wanted, {there} in stock")


class Inventory:
    def __init__(self, path=":memory:"):
        self.db = sqlite3.connect(path)
        self.db.execute("PRAGMA foreign_keys = ON")
        self.db.executescript(SCHEMA)

    def add_part(self, sku, name, price, reorder_at=0):
        with self.db:
            self.db.execute(
                "INSERT INTO parts VALUES (?, ?, ?, ?)", (sku, name, price, reorder_at)
            )

    def stock(self, sku):
        """Return the number of pieces on the shelf."""
        known = self.db.execute("SELECT 1 FROM parts WHERE sku = ?", (sku,)).fetchone()
        if known is None:
            raise UnknownPart(sku)
        row = self.db.execute(
            "SELECT COALESCE(SUM(quantity), 0) FROM movements WHERE sku = ?", (sku,)
        ).fetchone()
        return row[0]

    def receive(self, sku, quantity, reason="delivery", day=None):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        self.stock(sku)  # raises UnknownPart
        self._move(sku, quantity, reason, day)

    def take(self, sku, quantity, reason, day=None):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        there = self.stock(sku)
        if there < quantity:
            raise NotEnough(sku, quantity, there)
        self._move(sku, -quantity, reason, day)

    def _move(self, sku, quantity, reason, day):
        day = day or date.today().isoformat()
        with self.db:
            self.db.execute(
                "INSERT INTO movements (sku, day, quantity, reason) VALUES (?, ?, ?, ?)",
                (sku, day, quantity, reason),
            )

    def history(self, sku):
        """Return (day, quantity, reason), oldest first."""
        return self.db.execute(
            "SELECT day, quantity, reason FROM movements WHERE sku = ? ORDER BY day, id",
            (sku,),
        ).fetchall()

    def value(self):
        """Return the value of the whole stock in pence."""
        row = self.db.execute(
            "SELECT COALESCE(SUM(m.quantity * p.price), 0)"
            " FROM movements m JOIN parts p USING (sku)"
        ).fetchone()
        return row[0]

    def to_reorder(self):
        """Return (sku, name, stock) of every part at or below its reorder level.

        Parts without any movement count as 0 in stock. Sorted by sku.
        """
