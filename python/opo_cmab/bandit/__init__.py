"""A bandit in six lines: decisions and rewards, kept in one file. docs/bandit.md is the guide."""

from .session import Bandit, Decision
from .store import BanditError

__all__ = ["Bandit", "BanditError", "Decision"]
