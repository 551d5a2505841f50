"""Child processes and this machine: frames, signals, private files."""
