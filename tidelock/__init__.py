"""Tidelock: parallel and exact replication between MySQL, MariaDB and PostgreSQL.

The packages live at the top of the source tree and are linked here, so that in the tree and installed alike everything
is under one import name: `tidelock.engine`, `tidelock.adapters`, `tidelock.simulations`.
"""
