"""Generate pyspec/_native/_binding.py, a cffi module in out-of-line ABI mode, from csrc/include/pyspec.h.

The header and its parts are the only description of the interface. `interface` puts them together, `declarations` strips
what cffi does not understand (comments, preprocessor lines, attributes).

Usage: python tools/generate_binding.py HEADER OUTPUT
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MODULE_NAME = "pyspec._native._binding"


def interface(header: Path) -> str:
    """The texts of the header and of all that it includes by #include "…", each once and behind what it needs."""
    seen: set[Path] = set()

    def text(path: Path) -> str:
        if path in seen:
            return ""
        seen.add(path)
        content = path.read_text(encoding="utf-8")
        parts = re.findall(r'^#include "(\w+\.h)"$', content, flags=re.MULTILINE)
        return "".join(text(path.parent / part) for part in parts) + content

    return text(header)


def declarations(header: str) -> str:
    """The header's text reduced to C declarations that cffi parses."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    text = text.replace("\\\n", " ")
    # `extern "C" {` and its brace live inside #ifdef __cplusplus, the export macros inside other conditionals: no
    # conditional of the header holds a declaration, so whole blocks go, the include guard apart.
    # Constants are the exception: `#define NAME (number)` is kept in the form that cffi takes.
    kept: list[str] = []
    depth = 0
    for line in text.splitlines():
        directive = line.strip()
        if re.match(r"#\s*if", directive):
            depth += 1
        elif re.match(r"#\s*endif", directive):
            depth -= 1
        elif depth <= 1 and (constant := re.fullmatch(r"#\s*define\s+(\w+)\s+\(?(-?\w+)\)?", directive)):
            kept.append(f"#define {constant[1]} {constant[2]}")
        elif not directive.startswith("#") and depth <= 1 and directive:
            kept.append(line.rstrip())
    if depth != 0:
        raise ValueError(f"unbalanced #if in the header (depth {depth} at the end)")
    return re.sub(r"\b(PYSPEC_API|PYSPEC_MUST_USE)\b\s*", "", "\n".join(kept)) + "\n"


def main(header: Path, output: Path) -> None:
    """Write the cffi module for `header` to `output`."""
    import cffi

    builder = cffi.FFI()
    builder.cdef(declarations(interface(header)))
    builder.set_source(MODULE_NAME, None)
    output.parent.mkdir(parents=True, exist_ok=True)
    builder.emit_python_code(str(output))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
