"""The shells around the machines: they carry effects out, and turn answers into events."""
