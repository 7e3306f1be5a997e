"""Breaks the code in known ways, one at a time, and shows that the test suite notices each. See README.md."""
