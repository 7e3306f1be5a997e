"""Write a C11 program that prints the layout of every struct of pyspec's headers as the C compiler sees it.

The structs are found by reading the headers, so a new one cannot be forgotten. Output of the program, a fact a line:
`struct NAME SIZE ALIGNMENT` and `field NAME FIELD OFFSET SIZE`, and `enum NAME VALUE` for every enumerator.

Usage: python make_layout.py OUTPUT.c HEADER...
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def structs(header: str) -> dict[str, list[str]]:
    """Struct name to field names, in order, from a header's text."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    found = {}
    for name, body in re.findall(r"typedef\s+struct\s+(\w+)\s*\{(.*?)\}\s*\w+\s*;", text, flags=re.DOTALL):
        fields = []
        for declaration in filter(None, map(str.strip, body.split(";"))):
            # "int32_t a, b" and "const char * c": the last word of every comma-separated part
            fields += [re.findall(r"\w+", part)[-1] for part in declaration.split(",")]
        found[name] = fields
    return found


def enumerators(header: str) -> list[str]:
    """Names of all enumerators."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    bodies = re.findall(r"typedef\s+enum\s+\w+\s*\{(.*?)\}", text, flags=re.DOTALL)
    return [re.findall(r"\w+", part)[0] for body in bodies for part in body.split(",") if part.strip()]


def program(header: str) -> str:
    """The C program's text."""
    lines = ["#include <pyspec.h>", "#include <stdio.h>", "", "int main(void) {"]
    for name, fields in structs(header).items():
        lines.append(f'    printf("struct {name} %zu %zu\\n", sizeof({name}), _Alignof({name}));')
        for field in fields:
            size = f"sizeof((({name} *)0)->{field})"
            lines.append(f'    printf("field {name} {field} %zu %zu\\n", offsetof({name}, {field}), {size});')
    for name in enumerators(header):
        lines.append(f'    printf("enum {name} %d\\n", (int){name});')
    return "\n".join([*lines, "    return 0;", "}", ""])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    headers = "".join(Path(header).read_text(encoding="utf-8") for header in sys.argv[2:])
    Path(sys.argv[1]).write_text(program(headers), encoding="utf-8")
