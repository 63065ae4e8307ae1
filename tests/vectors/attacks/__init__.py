"""Attack vectors: what an attacker, or an honest mistake, makes of the product, step by step."""

from tests.vectors.attacks.run import run

__all__ = ["run"]
