"""Stop strings, found in the bytes of the answer however they are spread over tokens."""

from __future__ import annotations

from collections.abc import Sequence

from pyspec.errors import OptionError


class StopStrings:
    """A set of stop strings. Looks at bytes: UTF-8 makes a byte match a character match."""

    __slots__ = ("_longest", "_prefixes", "texts")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        encoded = []
        for text in self.texts:
            if not isinstance(text, str) or not text:
                raise OptionError(f"stop takes non-empty strings, not {text!r}")
            encoded.append(text.encode("utf-8", "surrogatepass"))
        self._prefixes = tuple(encoded)
        self._longest = max((len(text) for text in encoded), default=0)

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def find(self, data: bytearray, n_old: int) -> tuple[int, str] | None:
        """Earliest match that ends behind the first n_old bytes: (start, stop string). Of two, the longer
        text wins.
        """
        start = max(0, n_old - self._longest + 1)
        best: tuple[int, str] | None = None
        for text, needle in zip(self.texts, self._prefixes, strict=True):
            at = data.find(needle, start)
            if at >= 0 and (best is None or at < best[0] or (at == best[0] and len(text) > len(best[1]))):
                best = (at, text)
        return best

    def safe_length(self, data: bytearray) -> int:
        """How many bytes can be shown now: no stop string that begins there can still be completed."""
        n = len(data)
        for start in range(max(0, n - self._longest + 1), n):
            tail = bytes(data[start:])
            if any(needle.startswith(tail) for needle in self._prefixes):
                return start
        return n


def stop_list(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """What `stop=` says as a tuple."""
    if stop is None:
        return ()
    if isinstance(stop, str):
        return (stop,)
    return tuple(stop)
