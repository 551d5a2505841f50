"""Name of a feed's replication slot and publication at a PostgreSQL source, which the feed's URL carries too."""

from tidelock.adapters.config.slot_name import slot_name as slot_name
