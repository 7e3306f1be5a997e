"""Ordinary text of five kinds, each at least 64 tokens in every vocabulary. Text that a small model can follow:
where nothing is likely, the two best tokens are near ties everywhere and comparing them says little."""

from __future__ import annotations

TEXTS = {
    "story": (
        "It was late in the evening when the old lighthouse keeper climbed the stairs for the "
        "last time. He carried a lamp in one hand and a letter in the other, and with every "
        "step he thought about the ship that had gone down so many years ago, and about the "
        "promise he had made to the captain's daughter on the morning after the storm. Nobody "
        "else knew what the letter said."
    ),
    "code": (
        "def merge_sorted(left, right):\n    result = []\n    i = j = 0\n    while i < len(left) "
        "and j < len(right):\n        if left[i] <= right[j]:\n            "
        "result.append(left[i])\n            i += 1\n        else:\n            "
        "result.append(right[j])\n            j += 1\n    result.extend(left[i:])\n    "
        "result.extend(right[j:])\n    return result\n\n\ndef merge_sort(values):\n    if "
        "len(values) <= 1:\n        return values\n"
    ),
    "facts": (
        "The capital of France is Paris, the capital of Italy is Rome, and the capital of "
        "Japan is Tokyo. Water boils at 100 degrees Celsius at sea level and freezes at 0 "
        "degrees. The Earth goes around the Sun once in 365.25 days; the Moon goes around the "
        "Earth in about 27 days. Light takes 8 minutes and 20 seconds from the Sun to the "
        "Earth, and about four years from the nearest star."
    ),
    "list": (
        "Shopping list:\n1. Bread\n2. Butter\n3. Milk\n4. Eggs\n5. Cheese\n6. Apples\n7. Bananas\n8. "
        "Tomatoes\n9. Rice\n10. Pasta\n11. Olive oil\n12. Salt\n13. Pepper\n14. Sugar\n15. Coffee\n16. "
        "Tea\n17. Honey\n18. Yoghurt\n"
    ),
    "class": (
        "class Point:\n    def __init__(self, x, y):\n        self.x = x\n        self.y = y\n\n"
        "    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)\n\n"
        "    def __sub__(self, other):\n        return Point(self.x - other.x, self.y - other.y)\n\n"
        "    def __repr__(self):\n        return f'Point({self.x}, {self.y})'\n"
    ),
}
