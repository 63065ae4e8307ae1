"""Statements read part by part: how strongly, which action, in which relation to which other action.

Where a production asks for a whole statement, this reader puts one together from its parts. A word that no part
accounts for may be left over only where leaving it out makes the rule weaker: beside what has to be done, never beside
what is forbidden or has to wait.
"""
