"""The small questions of the preflight gates: seeded, harmless, and the same for whoever regenerates them."""

from certify.cases.picks import Picks

TICK = "tick"  # what the ruler's emitter is asked; it does not read it


def sum_question(seed: str) -> str:
    """A sum of two numbers: what the contract's tiny chats ask."""
    picks = Picks(seed, "contract")
    return f"What is {picks.between(11, 99)} plus {picks.between(11, 99)}? Answer in one short sentence."


def riddle(seed: str) -> str:
    """A short riddle that is worth a thought: what the thinking switch is tried on."""
    picks = Picks(seed, "thinking")
    had, bought, lost = picks.between(21, 59), picks.between(11, 19), picks.between(3, 9)
    return (
        f"A farmer has {had} sheep. She buys {bought} more, then {lost} run away, and half of the rest are sold. How "
        "many sheep does she have now?"
    )
