"""A feed of many workers over Kafka: the Faust worker, its table groups, the publisher."""
