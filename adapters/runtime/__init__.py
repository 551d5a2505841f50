"""The shells around the machines: effects are carried out, answers become events."""
