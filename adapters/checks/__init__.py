"""Can a feed run?  Its source, its tables and its log are looked at; nothing is written."""
