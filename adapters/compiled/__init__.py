"""The compiled forms of hot paths: built beside their sources, and admitted only if made of them."""
