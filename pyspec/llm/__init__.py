"""LLM and its session: prompts in, text out."""
