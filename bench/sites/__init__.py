"""Sites that are all written to, for minutes, under blows: do they end equal, and is nothing lost without a word?"""
