"""A scenario that is told line by line, and what it answers."""

from tidelock.simulations.scenario import Scenario


class Told:
    """Tells a machine lines of a scenario (`simulations.scenario`)."""

    def __init__(self, *lines: str) -> None:
        self.scenario = Scenario()
        self.tell(*lines)

    def tell(self, *lines: str) -> list[str]:
        """Returns the effects of all lines, as transcripts spell them."""
        return [effect.removeprefix("  → ") for line in lines for effect in self.scenario.take(line)]
