"""Handles to the C core with Python manners: Model, Context, Sampler, and tokenizers made from a model's vocabulary."""
