"""Speed of pyspec beside a peer on the same file, the same threads and in the same run: `python -m tools.bench`."""
