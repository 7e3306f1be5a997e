"""What `pyspec-cli bench` asks the model for: five kinds of answers that drafters guess more or less well."""

from __future__ import annotations

_PROGRAM = """def read_orders(lines):
    orders = []
    for line in lines:
        name, amount, price = line.split(";")
        orders.append({"name": name, "amount": int(amount), "price": float(price)})
    return orders


def total(orders):
    result = 0.0
    for order in orders:
        result += order["amount"] * order["price"]
    return result


def largest(orders):
    best = None
    for order in orders:
        if best is None or order["amount"] * order["price"] > best["amount"] * best["price"]:
            best = order
    return best
"""

_LETTER = (
    "Dear neighbours, on Friday the water in our street will be turned off from eight in the morning until two in the "
    "afternoon, because a valve at number 14 has to be replaced. Please fill a kettle the evening before. The water may "
    "be brown for a few minutes afterwards; let it run until it is clear. Anna Berg, house committee."
)

#: kind -> user message.
WORKLOADS: dict[str, str] = {
    "edit": "Rename `orders` to `items` everywhere in this program and print the whole program again.\n\n"
    f"```python\n{_PROGRAM}```",
    "code": "Write a Python class for a queue with a fixed capacity, with push, pop and len, and a short test of it.",
    "quote": f"{_LETTER}\n\nRepeat this letter word for word, then name the day and the hours.",
    "json": "List six European rivers as a JSON array of objects with the keys name, length_km, source and mouth.",
    "prose": "Describe a walk through a small town on the first cold morning of autumn.",
}

#: Text that is cut or repeated to the length a measurement of prompts wants; what it says does not matter.
FILLER = f"{_LETTER}\n\n{_PROGRAM}\n"
