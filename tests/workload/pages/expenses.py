"""Split shared expenses of a trip and say who owes what to whom.

Input is a CSV file with the columns date, payer, amount, what and for:

    date,payer,amount,what,for
    2025-07-04,Ana,84.00,rental car,*
    2025-07-04,Ben,31.50,groceries,Ana;Ben;Chris
    2025-07-05,Chris,12.00,parking,*

A star in the last column means everybody. Amounts are held in cents, and the
cents that cannot be divided go to the first names in alphabetical order, so
that the shares of an expense always add up to its amount.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation


@dataclass(frozen=True)
class Expense:
    date: str
    payer: str
    cents: int
    what: str
    sharers: tuple[str, ...]


class ExpenseError(Exception):
    """A line of the file cannot be used; the message names it."""


def to_cents(text, line):
    try:
        amount = Decimal(text.replace(",", "."))
    except InvalidOperation:
        raise ExpenseError(f"line {line}: {text!r} is not an amount") from None
    cents = amount * 100
    if cents != cents.to_integral_value() or cents <= 0:
        raise ExpenseError(f"line {line}: {text!r} must be positive, with two decimals")
    return int(cents)


def read_expenses(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    everybody = sorted({row["payer"] for row in rows})
    expenses = []
    for line, row in enumerate(rows, start=2):
        if row["for"].strip() == "*":
            sharers = everybody
        else:
            sharers = sorted({name.strip() for name in row["for"].split(";")})
        if not all(sharers):
            raise ExpenseError(f"line {line}: an empty name")
        expenses.append(
            Expense(
                date=row["date"],
                payer=row["payer"],
                cents=to_cents(row["amount"], line),
                what=row["what"],
                sharers=tuple(sharers),
            )
        )
    return expenses


def shares(expense):
    """Return a dict of name to cents; the values add up to the expense."""
    each, rest = divmod(expense.cents, len(expense.sharers))
    return {
        name: each + (1 if index < rest else 0)
        for index, name in enumerate(expense.sharers)
    }


def balances(expenses):
    """Return a dict of name to cents: positive is owed to, negative owes."""
    result = defaultdict(int)
    for expense in expenses:
        result[expense.payer] += expense.cents
        for name, cents in shares(expense).items():
            result[name] -= cents
    return dict(result)


def report(payments):
    for debtor, creditor, cents in payments:
        print(f"{debtor} pays {creditor} {cents // 100}.{cents % 100:02}")


def settle(balance):
    """Return payments (debtor, creditor, cents) after which all balances are 0.

    Repeatedly lets the person who owes most pay the person who is owed most,
    as much as the smaller of the two amounts. Ties go to the first name in
    alphabetical order. The argument is not changed.
    """
