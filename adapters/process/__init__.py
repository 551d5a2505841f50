"""Processes of ours and this machine: children, frames, signals, private files."""
