"""Error of what may mean something else at the target; apart from the translation, whose parser is slow to import."""


class NotTranslated(Exception):
    """Error of an expression that may mean something else at the target; `args[0]` is the reason."""
