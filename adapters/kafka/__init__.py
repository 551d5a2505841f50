"""Clients of Kafka and the topics of a feed."""
