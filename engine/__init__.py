"""Tidelock's engine: pure state machines that decide; `adapters` act.

No I/O, no clock, no randomness, no logging and no `await` in here: time and
outcomes come in as events (`engine.protocol.events`), what is to be done goes out as effects
(`engine.protocol.effects`).  `capture` and `apply` compose the leaf machines; leaves do
not import each other's state.
"""
