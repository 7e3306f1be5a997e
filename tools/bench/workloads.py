"""What the benchmarks generate: five kinds of text that people ask local models for, two prompts each."""

from __future__ import annotations

#: A small program, for prompts whose answer repeats most of it.
CODE_FILE = """import csv
import os
from dataclasses import dataclass


@dataclass
class Reading:
    station: str
    day: str
    low: float
    high: float


def load_readings(path):
    rows = []
    with open(path, newline="") as handle:
        for row in csv.DictReader(handle):
            rows.append(Reading(row["station"], row["day"], float(row["low"]), float(row["high"])))
    return rows


def mean_range(readings):
    if not readings:
        return 0.0
    total = 0.0
    for reading in readings:
        total += reading.high - reading.low
    return total / len(readings)


def hottest(readings):
    best = None
    for reading in readings:
        if best is None or reading.high > best.high:
            best = reading
    return best


def report(path):
    readings = load_readings(path)
    print("stations:", len({r.station for r in readings}))
    print("mean range:", round(mean_range(readings), 2))
    top = hottest(readings)
    if top is not None:
        print("hottest:", top.station, top.day, top.high)


if __name__ == "__main__":
    report(os.environ.get("READINGS", "readings.csv"))
"""

#: A short report, for prompts whose answer quotes it.
NOTE = (
    "The harbour bridge was closed on Tuesday morning after inspectors found a cracked bearing on "
    "the northern span. The city engineer said the crack was eleven centimetres long and had not "
    "been there in March. Traffic was sent over the ring road, where delays reached forty minutes by "
    "noon. A replacement bearing is held in stock at the depot and can be fitted in three nights of "
    "work, so the bridge should open again on Saturday at six in the morning. Lorries above eighteen "
    "tonnes must keep to the ring road for two weeks more. The council will publish the inspection "
    "report next month and has asked for the same check on four other bridges of the same age."
)

#: (kind, user message)
PROMPTS: tuple[tuple[str, str], ...] = (
    (
        "edit",
        "Rewrite this file so that every function has a type annotation for its return value. Give "
        f"the whole file.\n\n```python\n{CODE_FILE}```\n",
    ),
    (
        "edit",
        "Rename the class Reading to Measurement everywhere in this file and print the complete file "
        f"again.\n\n```python\n{CODE_FILE}```\n",
    ),
    (
        "code",
        "Write a Python function that merges two sorted lists into one sorted list without using "
        "sort, with a docstring and three doctest examples.",
    ),
    (
        "code",
        "Write a Python class for a fixed-size ring buffer of floats with push, mean and as_list "
        "methods. Use numpy.",
    ),
    (
        "quote",
        f"Here is a note:\n\n{NOTE}\n\nFirst repeat the note word for word, then list its facts as bullet "
        "points.",
    ),
    (
        "quote",
        f"Here is a note:\n\n{NOTE}\n\nWhich sentences mention a duration or a time? Quote each sentence "
        "exactly.",
    ),
    (
        "json",
        "Extract from this note a JSON object with keys place, cause, crack_cm, reopening, "
        "lorry_limit_tonnes, bridges_to_check, and then the same object again with keys in reverse "
        f"order.\n\n{NOTE}",
    ),
    (
        "json",
        "Produce a JSON array of eight objects describing the planets of the solar system, each with "
        "keys name, order, moons, type, diameter_km.",
    ),
    (
        "prose",
        "Write the opening of a short story about a lighthouse keeper who finds a letter in a "
        "bottle. Use vivid language.",
    ),
    (
        "prose",
        "Explain to a curious adult why the sky is dark at night although there are so many stars.",
    ),
)

#: Kinds in the order of the prompts.
KINDS: tuple[str, ...] = tuple(dict.fromkeys(kind for kind, _ in PROMPTS))

#: Text that is cut or repeated to the length a measurement wants; what it says does not matter for time.
FILLER = f"{NOTE}\n\n```python\n{CODE_FILE}```\n\n"
