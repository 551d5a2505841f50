"""Adapters act: they read source logs, write targets, and carry the engine's effects out."""
