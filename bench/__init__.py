"""Measurements, the demo, and the real servers that both of them and the tests run against."""
